#include "lib/optim/step_numbers.h"

#include <ATen/ops/empty.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cstring>
#include <exception>

#include "lib/device/pinned.h"

namespace bv {
namespace {

// The place of each number in the tensor. The step number is an int64, so it takes the first two
// places.
constexpr int64_t kMixup = 2, kEmaRest = 4, kFused = 5;

}  // namespace

StepNumbers::StepNumbers(int64_t schedules, c10::Device device) {
  const int64_t n = kFused + FusedNumbers::kSchedules + schedules;
  all_ = at::empty({n}, at::TensorOptions(at::kFloat).device(device)).zero_();
  step_ = all_.narrow(0, 0, kMixup).view(at::kLong).select(0, 0);
  mixup_ = all_.narrow(0, kMixup, 2);
  ema_rest_ = all_.select(0, kEmaRest);
  fused_ = all_.narrow(0, kFused, n - kFused);
  if (device.is_cpu()) return;
  for (at::Tensor& copy : host_) copy = pinned_empty({n}, at::kFloat);
}

StepNumbers::~StepNumbers() {
  try {
    for (const std::optional<c10::Event>& copied : copied_)
      if (copied) copied->synchronize();
  } catch (const std::exception&) {
    // The device has failed: nothing is being copied.
  }
}

void StepNumbers::set(const Values& values) {
  const bool on_host = all_.is_cpu();
  const at::Tensor& host = on_host ? all_ : host_.at(next_);
  std::optional<c10::Event>& copied = copied_.at(next_);
  if (copied) copied->synchronize();
  auto* const to = host.mutable_data_ptr<float>();
  std::memcpy(to, &values.step, sizeof(values.step));
  to[kMixup] = static_cast<float>(values.mixup);
  to[kMixup + 1] = static_cast<float>(1 - values.mixup);
  to[kEmaRest] = 1.0F - values.ema_decay;
  float* const fused = to + kFused;
  fused[0] = values.ema_decay;
  std::copy(values.rule.begin(), values.rule.end(), fused + FusedNumbers::kRulePlace);
  std::copy(values.schedules.begin(), values.schedules.end(), fused + FusedNumbers::kSchedules);
  if (on_host) return;
  all_.copy_(host, /*non_blocking=*/true);
  copied.emplace(all_.device().type());
  copied->record(c10::impl::VirtualGuardImpl(all_.device().type()).getStream(all_.device()));
  next_ = 1 - next_;
}

}  // namespace bv
