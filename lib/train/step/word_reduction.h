// The sum of a few numbers of the host over the ranks, which travels while the device computes.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>

#include "lib/distributed/group.h"

namespace bv {

// A few numbers that the caller of a step wants summed over the ranks: clocks, flags, and a number
// with its square that shows whether all ranks have the same one.
using ControlWord = std::array<double, 8>;

// The all-reduce of a control word. It runs on the CPU, where the values are read.
class WordReduction {
 public:
  ControlWord word{};  // each rank's own, after finish() the sum; in a group of one its own

  // Starts the sum. A loss on the CPU, () float64, is summed with the word.
  void begin(Group& group, const at::Tensor& loss = {});
  // Waits for the sum. Sets the same `loss` to its sum.
  void finish(const at::Tensor& loss = {});

 private:
  at::Tensor values_;  // (1 + the size of the word) float64
  Group::Pending pending_;
};

}  // namespace bv
