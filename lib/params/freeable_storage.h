// Memory that comes and goes below tensors that stay: what autograd has saved, and every view, sees
// the new memory again.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace bv {

class FreeableStorage {
 public:
  FreeableStorage() = default;
  // `elements` float32, without memory.
  FreeableStorage(int64_t elements, c10::Device device);

  // (elements) float32; may be touched while here().
  const at::Tensor& tensor() const { return tensor_; }
  bool allocated() const { return allocated_; }
  void allocate(bool zeroed);
  void free();

  static int64_t bytes_now();   // of all loans of this process
  static int64_t bytes_most();  // at any time so far

 private:
  at::Tensor tensor_;
  bool allocated_ = false;
};

}  // namespace bv
