// Sums all ranks' gradients while backward still runs. A bucket is a range of the flat gradient
// buffer; its all-reduce begins once its last gradient is there, whatever the order they come in.
// Gradients of which each rank keeps a part are the business of Units.
#pragma once

#include <memory>

#include "lib/distributed/group.h"
#include "lib/params/flat_params.h"

namespace bv {

class GradientBuckets {
 public:
  // Buckets of at least `bytes`, cut between parameters. `params` and `group` must outlive this. In
  // a group of one it does nothing.
  GradientBuckets(const FlatParams& params, Group& group, int64_t bytes);
  ~GradientBuckets();

  // Before backward, of which there are `times`: no gradient is there yet.
  void begin(int64_t times);
  void finish();  // behind the last: begins what never got full, in order, and waits for all

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;  // null in a group of one
};

}  // namespace bv
