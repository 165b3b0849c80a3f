// Memory that comes and goes below tensors that stay: what autograd has saved, and every view, sees
// the new memory again.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace bv {

class Loan {
 public:
  Loan() = default;
  // `elements` float32, without memory.
  Loan(int64_t elements, c10::Device device);

  // (elements) float32; may be touched while here().
  const at::Tensor& tensor() const { return tensor_; }
  bool here() const { return here_; }
  void take(bool zeroed);
  void give_back();

  static int64_t bytes_now();   // of all loans of this process
  static int64_t bytes_most();  // at any time so far

 private:
  at::Tensor tensor_;
  bool here_ = false;
};

}  // namespace bv
