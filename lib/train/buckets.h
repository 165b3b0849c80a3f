// Sums all ranks' gradients while backward still runs. A bucket is a range of the flat gradient
// buffer; its all-reduce begins once its last gradient is there, whatever the order they come in.
// Gradients of which each rank keeps a part are the business of Units.
#pragma once

#include <memory>

#include "lib/dist/group.h"
#include "lib/train/params.h"

namespace bv {

class GradientBuckets {
 public:
  // Buckets of at least `bytes`, cut between parameters. `params` and `group` must outlive this. In
  // a group of one it does nothing.
  GradientBuckets(const FlatParams& params, dist::Group& group, int64_t bytes);
  ~GradientBuckets();

  void begin();   // before backward: no gradient is there yet
  void finish();  // behind it: begins what never got full, in order, and waits for all

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;  // null in a group of one
};

}  // namespace bv
