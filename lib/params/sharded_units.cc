#include "lib/params/sharded_units.h"

#include <ATen/ops/empty_like.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "lib/params/gradient_hook.h"

namespace bv {
namespace {

// How many segments may be in a collective when the next one starts. Each of them needs memory for
// both its full and its sharded values.
constexpr size_t kMaxInFlight = 1;
constexpr int kLargeBlock = 4 << 20;  // bytes

}  // namespace

ShardedUnits::ShardedUnits(FlatParams& params, Group& group)
    : params_(params),
      group_(group),
      root_(params.units()),
      segments_of_unit_(root_ + 1),
      in_backward_(root_ + 1) {
  const auto& segments = params_.segments();
  for (const auto& segment : segments) {
    work_.emplace_back();
    work_.back().gather_name = "parameters of " + segment.name;
    work_.back().reduce_name = "gradients of " + segment.name;
  }
  for (size_t i = 0; i < segments.size(); ++i) {
    if (segments[i].level == ShardLevel::fsdp)
      segments_of_unit_[segments[i].unit].push_back(static_cast<int>(i));
  }
  for (const auto& entry : params_.entries()) hook(entry);
  // Evaluations and non-tensor data also allocate and free large blocks, which would fragment the
  // heap. So malloc maps them instead, which costs page faults, and returns them to the system when
  // they are freed.
  ::mallopt(M_MMAP_THRESHOLD, kLargeBlock);
}

void ShardedUnits::hook(const FlatParams::Entry& entry) {
  if (entry.group == kFrozen || entry.level < ShardLevel::zero2) return;
  const int segment = entry.segment;
  ++work_[segment].parameters;
  hooks_.emplace_back(entry.parameter, entry.parameter.register_hook(
                                           [this, segment](const at::Tensor& grad) -> at::Tensor {
                                             on_gradient_begin(segment);
                                             return grad;
                                           }));
  GradientHook::set(entry.parameter, [this, segment] { on_gradient_ready(segment); });
}

ShardedUnits::~ShardedUnits() {
  for (const auto& [parameter, position] : hooks_) {
    parameter.remove_hook(position);
    GradientHook::remove(parameter);
  }
}

// Returns this rank's shard of a segment, which starts at `offset` in `flat`.
at::Tensor ShardedUnits::shard_of(const at::Tensor& flat, int64_t offset, int segment) const {
  return flat.narrow(0, offset, params_.segments()[segment].shard_size);
}

// ---- parameters

void ShardedUnits::start_all_gather(int unit) {
  for (const int i : segments_of_unit_[unit]) {
    FlatParams::Segment& segment = params_.segments()[i];
    if (segment.parameters.allocated()) continue;
    segment.parameters.allocate(/*zeroed=*/false);
    work_[i].gathering = true;
    work_[i].all_gather = group_.all_gather(segment.parameters.tensor(),
                                            shard_of(params_.data(), segment.data_offset, i),
                                            work_[i].gather_name.c_str());
  }
}

void ShardedUnits::gather(int unit) {
  start_all_gather(unit);
  for (const int i : segments_of_unit_[unit]) {
    if (std::exchange(work_[i].gathering, false)) work_[i].all_gather.wait();
  }
}

void ShardedUnits::free_parameters(int unit) {
  for (const int i : segments_of_unit_[unit]) {
    if (std::exchange(work_[i].gathering, false)) work_[i].all_gather.wait();
    params_.segments()[i].parameters.free();
  }
}

void ShardedUnits::begin() {
  std::fill(in_backward_.begin(), in_backward_.end(), false);
  start_all_gather(root_);
  start_all_gather(0);
  gather(root_);
}

void ShardedUnits::end() {
  // After an error this process ends with it. Waiting could take long, or throw another error. The
  // memory stays, because collectives in flight still write to it.
  if (std::uncaught_exceptions() > 0) return;
  for (int unit = 0; unit <= root_; ++unit) free_parameters(unit);
}

void ShardedUnits::enter(int unit, const at::Tensor& x) {
  gather(unit);
  if (unit + 1 < root_) start_all_gather(unit + 1);
  if (!c10::GradMode::is_enabled() || !x.requires_grad()) return;
  x.register_hook([this, unit](const at::Tensor& grad) -> at::Tensor {
    free_parameters(unit);
    return grad;
  });
}

void ShardedUnits::leave(int unit, const at::Tensor& y) {
  const bool in_backward = c10::GradMode::is_enabled() && y.requires_grad();
  // Backward starts with the last unit, so its parameters are kept.
  const bool last = unit + 1 == root_;
  if (!in_backward || !last) free_parameters(unit);
  if (!in_backward) return;
  in_backward_[unit] = true;
  y.register_hook([this, unit](const at::Tensor& grad) -> at::Tensor {
    gather(unit);
    if (unit > 0 && in_backward_[unit - 1]) start_all_gather(unit - 1);
    return grad;
  });
}

// ---- gradients

void ShardedUnits::begin_gradients(bool accumulate) {
  accumulate_ = accumulate;
  for (SegmentWork& work : work_) {
    work.missing = work.parameters;
    work.reduced = false;
  }
}

void ShardedUnits::on_gradient_begin(int i) {
  FreeableStorage& gradients = params_.segments()[i].gradients;
  if (!gradients.allocated()) gradients.allocate(/*zeroed=*/true);
}

void ShardedUnits::on_gradient_ready(int i) {
  if (--work_[i].missing == 0) start_reduce_scatter(i);
}

void ShardedUnits::start_reduce_scatter(int i) {
  wait_for_reduce_scatters(kMaxInFlight);
  FlatParams::Segment& segment = params_.segments()[i];
  if (!segment.gradients.allocated()) segment.gradients.allocate(/*zeroed=*/true);
  work_[i].reduced = true;
  const at::Tensor shard = shard_of(params_.grads(), segment.grad_offset, i);
  if (accumulate_) work_[i].to_add = at::empty_like(shard);
  work_[i].reduce_scatter =
      group_.reduce_scatter_sum(accumulate_ ? work_[i].to_add : shard, segment.gradients.tensor(),
                                work_[i].reduce_name.c_str());
  reducing_.push_back(i);
}

void ShardedUnits::wait_for_reduce_scatters(size_t max_in_flight) {
  while (reducing_.size() > max_in_flight) {
    const int i = reducing_.front();
    reducing_.pop_front();
    work_[i].reduce_scatter.wait();
    FlatParams::Segment& segment = params_.segments()[i];
    segment.gradients.free();
    if (accumulate_)
      shard_of(params_.grads(), segment.grad_offset, i).add_(std::exchange(work_[i].to_add, {}));
  }
}

void ShardedUnits::finish_gradients() {
  for (size_t i = 0; i < work_.size(); ++i) {
    if (work_[i].parameters > 0 && !work_[i].reduced) start_reduce_scatter(static_cast<int>(i));
  }
  wait_for_reduce_scatters(0);
}

void ShardedUnits::all_gather_parameters() {
  std::deque<Group::Pending> pending;
  for (size_t i = 0; i < work_.size(); ++i) {
    const FlatParams::Segment& segment = params_.segments()[i];
    if (segment.level == ShardLevel::fsdp) continue;
    if (pending.size() > kMaxInFlight) {
      pending.front().wait();
      pending.pop_front();
    }
    const at::Tensor whole =
        params_.data().narrow(0, segment.data_offset, segment.shard_size * group_.size());
    pending.push_back(group_.all_gather(
        whole, whole.narrow(0, group_.rank() * segment.shard_size, segment.shard_size),
        work_[i].gather_name.c_str()));
  }
  for (auto& each : pending) each.wait();
}

}  // namespace bv
