// Copies of tensors in memory that is allocated once: allocating memory for each snapshot of the
// state would take as long as copying it.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <optional>
#include <vector>

namespace bv {

class HostCopies {
 public:
  HostCopies() = default;
  HostCopies(const HostCopies&) = delete;
  ~HostCopies();  // waits as await() does

  // From now on copy() overwrites what it has returned so far. Waits as await() does.
  void restart();
  // Returns a copy of `tensor` on the CPU with its sizes and strides. The n-th call after restart()
  // reuses the memory of the n-th call before it, if it fits.
  //
  // A tensor on a GPU is first copied within the GPU, and from there to pinned host memory on
  // a separate stream, so that computation continues. The values are complete after await(). If the
  // GPU has no memory for its copy, the call blocks until the host has the values.
  at::Tensor copy(const at::Tensor& tensor);
  // Waits until all copies hold their values. Unlike the others, any thread may call it.
  void await();

 private:
  void copy_from_device(const at::Tensor& tensor, const at::Tensor& to);

  std::vector<at::Tensor> copies_;
  size_t next_ = 0;
  std::optional<c10::Stream> stream_;  // to the host; nullopt until a GPU's tensor is copied
  std::optional<c10::Event> done_;     // when the last copy has arrived
};

}  // namespace bv
