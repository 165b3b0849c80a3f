// Copies of tensors in memory that is allocated once: fresh memory for each snapshot of the state
// would cost as much time as copying it.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace bv {

class HostCopies {
 public:
  // From now on copy() overwrites what it has returned so far.
  void restart() { next_ = 0; }
  // Returns a copy of `tensor` on the CPU with its sizes and strides. The memory is that of the
  // copy that was as many calls after the last restart(), if it fits; it is pinned for a tensor of
  // a GPU.
  at::Tensor copy(const at::Tensor& tensor);

 private:
  std::vector<at::Tensor> copies_;
  size_t next_ = 0;
};

}  // namespace bv
