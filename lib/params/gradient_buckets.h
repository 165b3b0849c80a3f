// All-reduces gradients while backward still runs, as PyTorch's DistributedDataParallel does
// (Li et al. 2020). A bucket is a range of the flat gradient buffer; its all-reduce starts as soon
// as its last gradient is ready, in whatever order gradients arrive. Sharded gradients (zero2,
// fsdp) are handled by ShardedUnits instead.
#pragma once

#include <memory>

#include "lib/distributed/group.h"
#include "lib/params/flat_params.h"

namespace bv {

class GradientBuckets {
 public:
  // Makes buckets of at least `bytes` and hooks into the parameters' gradients. `params` and
  // `group` must outlive this object. Does nothing in a group of one.
  GradientBuckets(const FlatParams& params, Group& group, int64_t bytes);
  ~GradientBuckets();

  // Call before the first of `backward_passes` passes whose gradients are accumulated: one for each
  // micro-batch.
  void begin(int64_t backward_passes);
  // Call after the last of them: all-reduces the buckets that never filled up (in order, so that
  // all ranks agree), and waits for all buckets.
  void finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;  // null in a group of one
};

}  // namespace bv
