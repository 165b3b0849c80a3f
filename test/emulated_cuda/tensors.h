// Tensors of the emulated GPU.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

namespace bv::emulation {

// The device of this process, and the number of devices: BVTRAIN_EMULATED_GPUS, or 1.
c10::Device device();
void use_device(int index);
int device_count();
size_t memory_size();  // of a device, in bytes: BVTRAIN_EMULATED_GPU_MIB, or 8 GiB

// Called when a collective of the device is launched. Blocks the n-th one of a process forever if
// BVTRAIN_EMULATED_HANG is n: a GPU's launches block once its queue is full behind a collective
// that hangs.
void hang_if_due();

// Returns the same values as a CPU tensor, at the addresses that the emulation may use.
at::Tensor as_host(const at::Tensor& device);

// While it exists, calls belong to the emulation, not to the program: they are hidden from
// observers of operators, and no gradients are recorded.
class Unseen {
  const at::RecordFunctionGuard off_{false};
  const at::AutoDispatchBelowADInplaceOrView below_;
};

}  // namespace bv::emulation
