#include "lib/params/units.h"

#include <ATen/ops/empty_like.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <utility>

#include "lib/params/gradient_hook.h"
namespace bv {

namespace {

// Segments under way at a time, besides the one that is begun: their buffers are there twice.
constexpr size_t kUnderWay = 1;
constexpr int kLargeBlock = 4 << 20;  // bytes

}  // namespace

Units::Units(FlatParams& params, Group& group)
    : params_(params),
      group_(group),
      rest_(params.units()),
      of_unit_(rest_ + 1),
      comes_again_(rest_ + 1) {
  const auto& segments = params_.segments();
  for (const auto& segment : segments) {
    work_.emplace_back();
    work_.back().gather_name = "parameters of " + segment.name;
    work_.back().sum_name = "gradients of " + segment.name;
  }
  for (size_t i = 0; i < segments.size(); ++i) {
    if (segments[i].level == ShardLevel::fsdp)
      of_unit_[segments[i].unit].push_back(static_cast<int>(i));
  }
  for (const auto& entry : params_.entries()) hook(entry);
  // Collectives' own buffers and activations, too, come and go in blocks that would leave the heap
  // in pieces: those straight from the system are given back at once, at the price of faulting them
  // in.
  ::mallopt(M_MMAP_THRESHOLD, kLargeBlock);
}

void Units::hook(const FlatParams::Entry& entry) {
  if (entry.group == kFrozen || entry.level < ShardLevel::zero2) return;
  const int segment = entry.segment;
  ++work_[segment].parameters;
  hooks_.emplace_back(entry.parameter, entry.parameter.register_hook(
                                           [this, segment](const at::Tensor& grad) -> at::Tensor {
                                             first_gradient(segment);
                                             return grad;
                                           }));
  GradientHook::set(entry.parameter, [this, segment] { last_gradient(segment); });
}

Units::~Units() {
  for (const auto& [parameter, position] : hooks_) {
    parameter.remove_hook(position);
    GradientHook::remove(parameter);
  }
}

// This rank's part of a segment, which lies at `place` in `flat`.
at::Tensor Units::part_of(const at::Tensor& flat, int64_t place, int segment) const {
  const int64_t part = params_.segments()[segment].part;
  return flat.narrow(0, place, part);
}

// ---- parameters

void Units::gather(int unit) {
  for (const int i : of_unit_[unit]) {
    FlatParams::Segment& segment = params_.segments()[i];
    if (segment.parameters.allocated()) continue;
    segment.parameters.allocate(/*zeroed=*/false);
    work_[i].gathering = true;
    work_[i].gathered =
        group_.all_gather(segment.parameters.tensor(), part_of(params_.data(), segment.data, i),
                          work_[i].gather_name.c_str());
  }
}

void Units::need(int unit) {
  gather(unit);
  for (const int i : of_unit_[unit]) {
    if (std::exchange(work_[i].gathering, false)) work_[i].gathered.wait();
  }
}

void Units::release(int unit) {
  for (const int i : of_unit_[unit]) {
    if (std::exchange(work_[i].gathering, false)) work_[i].gathered.wait();
    params_.segments()[i].parameters.free();
  }
}

void Units::begin() {
  std::fill(comes_again_.begin(), comes_again_.end(), false);
  gather(rest_);
  gather(0);
  need(rest_);
}

void Units::end() {
  for (int unit = 0; unit <= rest_; ++unit) release(unit);
}

void Units::enter(int unit, const at::Tensor& x) {
  need(unit);
  if (unit + 1 < rest_) gather(unit + 1);
  if (!c10::GradMode::is_enabled() || !x.requires_grad()) return;
  x.register_hook([this, unit](const at::Tensor& grad) -> at::Tensor {
    release(unit);
    return grad;
  });
}

void Units::leave(int unit, const at::Tensor& y) {
  const bool again = c10::GradMode::is_enabled() && y.requires_grad();
  // The last one is the first that backward needs.
  const bool last = unit + 1 == rest_;
  if (!again || !last) release(unit);
  if (!again) return;
  comes_again_[unit] = true;
  y.register_hook([this, unit](const at::Tensor& grad) -> at::Tensor {
    need(unit);
    if (unit > 0 && comes_again_[unit - 1]) gather(unit - 1);
    return grad;
  });
}

// ---- gradients

void Units::begin_gradients(bool add) {
  add_ = add;
  for (Work& work : work_) {
    work.missing = work.parameters;
    work.summing = false;
  }
}

void Units::first_gradient(int i) {
  FreeableStorage& gradients = params_.segments()[i].gradients;
  if (!gradients.allocated()) gradients.allocate(/*zeroed=*/true);
}

void Units::last_gradient(int i) {
  if (--work_[i].missing == 0) sum(i);
}

void Units::sum(int i) {
  settle(kUnderWay);
  FlatParams::Segment& segment = params_.segments()[i];
  if (!segment.gradients.allocated()) segment.gradients.allocate(/*zeroed=*/true);
  work_[i].summing = true;
  const at::Tensor part = part_of(params_.grads(), segment.grad, i);
  if (add_) work_[i].to_add = at::empty_like(part);
  work_[i].summed = group_.reduce_scatter_sum(
      add_ ? work_[i].to_add : part, segment.gradients.tensor(), work_[i].sum_name.c_str());
  summing_.push_back(i);
}

void Units::settle(size_t most) {
  while (summing_.size() > most) {
    const int i = summing_.front();
    summing_.pop_front();
    work_[i].summed.wait();
    FlatParams::Segment& segment = params_.segments()[i];
    segment.gradients.free();
    if (add_) part_of(params_.grads(), segment.grad, i).add_(std::exchange(work_[i].to_add, {}));
  }
}

void Units::finish_gradients() {
  for (size_t i = 0; i < work_.size(); ++i) {
    if (work_[i].parameters > 0 && !work_[i].summing) sum(static_cast<int>(i));
  }
  settle(0);
}

void Units::spread() {
  std::deque<Group::Pending> pending;
  for (size_t i = 0; i < work_.size(); ++i) {
    const FlatParams::Segment& segment = params_.segments()[i];
    if (segment.level == ShardLevel::fsdp) continue;
    if (pending.size() > kUnderWay) {
      pending.front().wait();
      pending.pop_front();
    }
    const at::Tensor whole = params_.data().narrow(0, segment.data, segment.part * group_.size());
    pending.push_back(group_.all_gather(whole,
                                        whole.narrow(0, group_.rank() * segment.part, segment.part),
                                        work_[i].gather_name.c_str()));
  }
  for (auto& each : pending) each.wait();
}

}  // namespace bv
