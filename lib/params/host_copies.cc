#include "lib/params/host_copies.h"

#include <ATen/ops/empty_like.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "lib/device/pinned.h"

namespace bv {

HostCopies::~HostCopies() {
  try {
    await();
  } catch (const std::exception&) {
    // The device has failed: nothing is being written.
  }
}

void HostCopies::restart() {
  await();
  next_ = 0;
}

at::Tensor HostCopies::copy(const at::Tensor& tensor) {
  if (next_ == copies_.size()) copies_.emplace_back();
  at::Tensor& own = copies_[next_++];
  const bool fits = own.defined() && own.sizes() == tensor.sizes() &&
                    own.strides() == tensor.strides() && own.dtype() == tensor.dtype();
  if (tensor.is_cpu()) {
    if (!fits) own = at::empty_like(tensor, tensor.options().requires_grad(false));
    own.copy_(tensor.detach());
  } else {
    if (!fits) own = pinned_empty(tensor.sizes(), tensor.strides(), tensor.scalar_type());
    copy_from_device(tensor.detach(), own);
  }
  return own;
}

void HostCopies::copy_from_device(const at::Tensor& tensor, const at::Tensor& to) {
  const c10::impl::VirtualGuardImpl device(tensor.device().type());
  at::Tensor staged;
  try {
    staged = tensor.clone();
  } catch (const c10::OutOfMemoryError&) {
    to.copy_(tensor);
    return;
  }
  if (!stream_) stream_ = device.getStreamFromGlobalPool(tensor.device());
  c10::Event staged_at(tensor.device().type());
  staged_at.record(device.getStream(tensor.device()));
  staged_at.block(*stream_);
  {
    const c10::StreamGuard guard(*stream_);
    to.copy_(staged, /*non_blocking=*/true);
  }
  // The allocator must not reuse the memory of `staged` before it is read.
  device.recordDataPtrOnStream(staged.storage().data_ptr(), *stream_);
  done_.emplace(tensor.device().type());
  done_->record(*stream_);
}

void HostCopies::await() {
  if (!done_) return;
  // By default the saving thread's device is the first GPU, and a CUDA call would create a context
  // there.
  const c10::OptionalDeviceGuard guard(stream_->device());
  done_->synchronize();
}

}  // namespace bv
