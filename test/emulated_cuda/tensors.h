// Tensors of the emulated GPU.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

namespace bv::emulation {

// The device of this process, and how many there are: BVTRAIN_EMULATED_GPUS, or 1.
c10::Device device();
void use_device(int index);
int device_count();
size_t memory_size();  // of a device, in bytes: BVTRAIN_EMULATED_GPU_MIB, or 8 GiB

// Returns the same values as a tensor of the CPU, at the addresses that the emulation may use.
at::Tensor as_host(const at::Tensor& device);

// While it exists, what is called is not what the program called, so nobody who watches operators
// sees it, and no gradients are recorded.
class Unseen {
  const at::RecordFunctionGuard off_{false};
  const at::AutoDispatchBelowADInplaceOrView below_;
};

}  // namespace bv::emulation
