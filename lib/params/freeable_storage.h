// A tensor whose memory can be freed and allocated again while the tensor stays alive. Views of it
// and tensors that autograd has saved see the new memory. FSDP keeps gathered parameters and
// unreduced gradients in such tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace bv {

// Not thread-safe.
class FreeableStorage {
 public:
  FreeableStorage() = default;
  // Makes a float32 tensor of (elements), without memory.
  FreeableStorage(int64_t elements, c10::Device device);

  const at::Tensor& tensor() const { return tensor_; }  // touch its values only while allocated()
  bool allocated() const { return allocated_; }
  // Gives the tensor memory, filled with zeros if `zeroed`. It must not be allocated.
  void allocate(bool zeroed);
  // Frees the memory; does nothing if there is none.
  void free();

  // Bytes allocated by all objects of this process: now, and the peak so far.
  static int64_t bytes_now();
  static int64_t bytes_most();

 private:
  at::Tensor tensor_;
  bool allocated_ = false;
};

}  // namespace bv
