// The state of a TrainStep: what a checkpoint contains, and how all ranks get it.
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "lib/train/step/step.h"

namespace bv {

// Returns everything that a checkpoint contains: the tensors in use or, with `copies`, their copies
// in `copies`.
std::vector<StatePart> TrainStep::state_parts(HostCopies* copies) const {
  using BufferKind = FlatParams::BufferKind;
  const auto take = [&](const at::Tensor& tensor) {
    return copies ? copies->copy(tensor) : tensor;
  };
  std::vector<StatePart> all;
  const auto add = [&](const std::string& name, const at::Tensor& tensor) {
    all.push_back({.name = name, .values = take(tensor)});
  };
  const auto add_flat = [&](BufferKind kind, const at::Tensor& tensor, const std::string& prefix) {
    const at::Tensor flat = take(tensor);
    for (const FlatParams::Slice& slice : params_.slices(kind)) {
      const FlatParams::Entry& entry = *slice.entry;
      const at::Tensor values = slice.whole ? flat.as_strided(entry.shape, entry.strides,
                                                              flat.storage_offset() + slice.offset)
                                            : flat.narrow(0, slice.offset, slice.count);
      all.push_back({.name = prefix + entry.name,
                     .values = values,
                     .whole = slice.whole,
                     .first = slice.first,
                     .shape = entry.shape,
                     .strides = entry.strides});
    }
  };
  add_flat(BufferKind::data, params_.data(), "params/");
  add("opt/count", count_);
  for (const Optimizer::Slot& slot : config_.optimizer->slots())
    add_flat(BufferKind::state, slot.flat, "opt/" + slot.name + "/");
  for (const auto& [name, tensor] : config_.optimizer->other_state()) add("opt/" + name, tensor);
  for (const auto& [name, buffer] : buffers_) add("buffers/" + name, buffer);
  if (config_.ema_decay) add_flat(BufferKind::state, ema_, "ema/");
  for (const auto& [name, buffer] : ema_buffers_) add("ema/" + name, buffer);
  return all;
}

bool TrainStep::is_saved(const StatePart& part) const {
  return !part.whole || !units_ || group_.rank() == 0;
}

NamedTensors TrainStep::state(PiecedTensors* pieced, HostCopies* copies) {
  start();
  check(pieced || !units_, "the state is sharded: state() needs `pieced`");
  HostCopies own;
  const bool awaits = copies == nullptr;
  if (awaits) copies = &own;
  copies->restart();
  NamedTensors all;
  for (StatePart& part : state_parts(copies)) {
    if (!is_saved(part)) continue;
    if (part.whole) {
      all.emplace(part.name, part.values);
      continue;
    }
    PiecedTensor& tensor = (*pieced)[part.name];
    tensor = {part.shape, part.strides, part.values.scalar_type()};
    if (part.values.numel() > 0) tensor.pieces.push_back({part.first, part.values});
  }
  if (awaits) copies->await();
  return all;
}

int64_t TrainStep::state_bytes() const {
  int64_t bytes = 0;
  for (const StatePart& part : state_parts())
    if (is_saved(part)) bytes += static_cast<int64_t>(part.values.nbytes());
  return bytes;
}

void TrainStep::load_state(const NamedTensors& from, const std::string& origin,
                           const PiecedTensors& pieced) {
  copy_in(state_parts(), from, pieced, {"params/", "opt/", "buffers/", "ema/"}, origin);
  started_ = false;
  digest_.reset();
}

Wanted TrainStep::wanted() const {
  std::map<std::string, StatePart> slices;
  for (StatePart& part : state_parts()) {
    if (!part.whole) slices[part.name] = std::move(part);
  }
  return [slices = std::move(slices)](const std::string& name, const std::vector<int64_t>&,
                                      const std::vector<int64_t>& strides) -> ElementRange {
    constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
    const auto slice = slices.find(name);
    // A tensor with another memory layout is read completely; copy_range() then copies this slice.
    if (slice == slices.end() || slice->second.strides != strides) return {0, kAll};
    const StatePart& part = slice->second;
    return {part.first, part.first + part.values.numel()};
  };
}

void TrainStep::broadcast_state() {
  if (!group_.open()) return;
  // Broadcasts the elements in the order of memory. Tensors may be permuted, but all ranks have the
  // same layout.
  const auto broadcast = [&](const at::Tensor& tensor) {
    group_.broadcast(tensor.detach().as_strided({tensor.numel()}, {1}, tensor.storage_offset()), 0,
                     "state");
  };
  started_ = false;
  digest_.reset();
  for (const at::Tensor& range : params_.replicated_data()) broadcast(range);
  broadcast(count_);
  if (!units_) {
    for (const Optimizer::Slot& slot : config_.optimizer->slots()) broadcast(slot.flat);
    if (config_.ema_decay) broadcast(ema_);
  }
  for (const auto& [name, tensor] : config_.optimizer->other_state()) broadcast(tensor);
  for (const auto& [name, buffer] : buffers_) broadcast(buffer);
  for (const auto& [name, buffer] : ema_buffers_) broadcast(buffer);
}

std::set<std::string> TrainStep::sharded_parameters() const {
  std::set<std::string> names;
  for (const FlatParams::Entry& entry : params_.entries())
    if (entry.level == ShardLevel::fsdp) names.insert(entry.name);
  return names;
}

void TrainStep::set_sharded_parameters(const std::set<std::string>& names,
                                       const std::function<at::Tensor(const std::string&)>& value) {
  started_ = false;
  digest_.reset();
  for (const FlatParams::Slice& own : params_.slices(FlatParams::BufferKind::data)) {
    const FlatParams::Entry& entry = *own.entry;
    if (own.whole || !names.contains(entry.name)) continue;
    const at::Tensor whole = at::empty({entry.numel}, params_.data().options());
    if (group_.rank() == 0) whole.as_strided(entry.shape, entry.strides).copy_(value(entry.name));
    group_.broadcast(whole, 0, "parameters");
    params_.data().narrow(0, own.offset, own.count).copy_(whole.narrow(0, own.first, own.count));
  }
}

TrainStep::Memory TrainStep::memory() const {
  const auto bytes = [](const at::Tensor& tensor) { return static_cast<int64_t>(tensor.nbytes()); };
  Memory memory;
  memory.parameters = bytes(params_.data());
  memory.gradients = bytes(params_.grads());
  for (const Optimizer::Slot& slot : config_.optimizer->slots()) memory.state += bytes(slot.flat);
  for (const auto& [name, tensor] : config_.optimizer->other_state()) memory.state += bytes(tensor);
  if (config_.ema_decay) memory.state += bytes(ema_);
  return memory;
}

std::vector<std::pair<double, double>> TrainStep::statistics() {
  const auto named = named_parameters(model_);
  std::map<std::string, size_t> place;
  for (size_t i = 0; i < named.size(); ++i) place[named[i].first] = 2 * i;
  const at::Tensor all_sums = at::zeros({2 * std::ssize(named)}, at::kDouble);
  auto* sums = all_sums.mutable_data_ptr<double>();
  for (const FlatParams::Slice& slice : params_.slices(FlatParams::BufferKind::data)) {
    if (slice.count == 0 || (slice.whole && group_.rank() > 0)) continue;
    double* sum = &sums[place.at(slice.entry->name)];
    constexpr int64_t kPiece = 1 << 22;  // copies in float64 take much memory
    for (int64_t begin = 0; begin < slice.count; begin += kPiece) {
      const at::Tensor values =
          params_.data()
              .narrow(0, slice.offset + begin, std::min(kPiece, slice.count - begin))
              .to(at::kDouble);
      sum[0] += values.sum().item<double>();
      sum[1] += values.square().sum().item<double>();
    }
  }
  sum_if_sharded(all_sums, "parameter overview");
  std::vector<std::pair<double, double>> all;
  for (size_t i = 0; i < named.size(); ++i) {
    const auto n = static_cast<double>(named[i].second.numel());
    const double mean = sums[2 * i] / n;
    all.emplace_back(mean, std::sqrt(std::max(sums[2 * i + 1] / n - mean * mean, 0.0)));
  }
  return all;
}

}  // namespace bv
