// Counts the operators that make the host wait for a device.
#pragma once

#include <ATen/record_function.h>

namespace bv::test {

// Counts while it exists, on all threads of the process. Only one may exist at a time.
//
// It sees
// - the operators that read a tensor's value, those of CPU tensors included: item(), a tensor that
//   is used as a bool or a number, equal(), nonzero();
// - copies from a device to the host: cpu(), to(kCPU), copy_() into a CPU tensor. Asynchronous ones
//   count too: a step that is not measured has no use for them;
// - copies from host memory that is not pinned to a device. They make the host wait even with
//   non_blocking.
// A tensor of device meta counts as one on a device.
//
// It does not see what calls no operator: data_ptr() and accessors of CPU tensors, CUDA's own
// functions such as cudaMemcpy and cudaStreamSynchronize, and code inside a kernel. In a run on the
// CPU nothing is copied between devices, so there it only sees reads of values.
class HostReads {
 public:
  HostReads();
  ~HostReads();
  HostReads(const HostReads&) = delete;
  int count() const;

 private:
  at::CallbackHandle handle_;
};

}  // namespace bv::test
