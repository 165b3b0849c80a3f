#include "lib/params/flat_params.h"

#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "lib/device/large_blocks.h"
#include "lib/util/error.h"

namespace bv {
namespace {

int64_t aligned(int64_t elements) {
  return (elements + FlatParams::kAlign - 1) / FlatParams::kAlign * FlatParams::kAlign;
}

// The process would keep the parameters' old memory after they moved into the buffer. So it is
// returned to the system after every kTrimBytes.
constexpr int64_t kTrimBytes = 64 << 20;
void return_freed_memory() {
  release_large_tensors();
  ::malloc_trim(0);
}

}  // namespace

FlatParams::FlatParams(Model& model, std::span<const int> groups, ShardingPlan plan,
                       const std::function<void(size_t)>& init)
    : device_(plan.device), plan_(std::move(plan)) {
  const auto named = named_parameters(model);
  check(named.size() == groups.size(), "{} parameters, {} groups", named.size(), groups.size());
  if (plan_.ranks == 1 || plan_.levels.empty())
    plan_.levels.assign(named.size(), ShardLevel::replicated);
  check(named.size() == plan_.levels.size(), "{} parameters, {} shard levels", named.size(),
        plan_.levels.size());
  for (size_t i = 0; i < named.size(); ++i) {
    const auto& [name, parameter] = named[i];
    check(parameter.scalar_type() == at::kFloat && parameter.is_non_overlapping_and_dense(),
          "parameter {} is not dense float32", name);
    if (parameter.is_meta()) device_ = parameter.device();  // a dry run: shapes only
    const bool frozen = groups[i] == kFrozen;
    // A frozen parameter has no gradient and no state: only fsdp has something to shard.
    const bool fsdp = plan_.levels[i] == ShardLevel::fsdp;
    entries_.push_back({.name = name,
                        .parameter = parameter,
                        .shape = parameter.sizes().vec(),
                        .strides = parameter.strides().vec(),
                        .stacked = model.parameters()[i].stacked,
                        .numel = parameter.numel(),
                        .group = groups[i],
                        .level = frozen && !fsdp ? ShardLevel::replicated : plan_.levels[i]});
  }
  std::vector<size_t> order(named.size());
  std::iota(order.rbegin(), order.rend(), 0);
  sort_entries(std::move(order));
  assign_offsets();
  data_ = allocate(size_, at::kFloat);
  grads_ = allocate(whole_grad_size_ + sharded_grad_size(), at::kFloat);
  const c10::AutoGradMode no_grad(false);
  std::map<std::string, size_t> registered;
  for (size_t i = 0; i < named.size(); ++i) registered[named[i].first] = i;
  int64_t moved = 0;
  for (Entry& entry : entries_) {
    if (init) init(registered.at(entry.name));
    move_into_buffers(entry);
    moved += 4 * entry.numel;
    if (moved < kTrimBytes) continue;
    return_freed_memory();
    moved = 0;
  }
  return_freed_memory();
}

// Sorts the entries into buffer order. `order`: that in which backward finishes them.
void FlatParams::sort_entries(std::vector<size_t> order) {
  assign_segments(order);
  const auto key = [&](size_t i) {
    const Entry& entry = entries_[i];
    return std::tuple(entry.group == kFrozen, static_cast<int>(entry.level), entry.segment,
                      entry.group);
  };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
  std::vector<Entry> sorted;
  for (const size_t i : order) sorted.push_back(std::move(entries_[i]));
  entries_ = std::move(sorted);
  std::vector<int64_t> filled(segments_.size());
  for (Entry& entry : entries_) {
    if (entry.segment < 0) continue;
    entry.segment_offset = filled[entry.segment];
    filled[entry.segment] += aligned(entry.numel);
  }
  for (size_t i = 0; i < segments_.size(); ++i) {
    Segment& segment = segments_[i];
    segment.shard_size = aligned((filled[i] + plan_.ranks - 1) / plan_.ranks);
    const int64_t whole = segment.shard_size * plan_.ranks;
    if (segment.level == ShardLevel::fsdp) segment.parameters = FreeableStorage(whole, device_);
    if (segment.level != ShardLevel::zero1 && segment.trainable)
      segment.gradients = FreeableStorage(whole, device_);
  }
}

// Assigns every sharded entry to a segment. zero1 and zero2 use buckets in the order of backward,
// which bounds the size of a single collective; fsdp uses one segment per unit.
void FlatParams::assign_segments(const std::vector<size_t>& order) {
  std::map<std::tuple<ShardLevel, int, bool>, int> known;
  int64_t bucket = 0, bytes = 0;
  for (const size_t i : order) {
    Entry& entry = entries_[i];
    if (entry.level == ShardLevel::replicated) continue;
    int unit = 0;
    std::string name;
    if (entry.level != ShardLevel::fsdp) {
      if (bytes >= plan_.bucket_bytes) {
        ++bucket;
        bytes = 0;
      }
      bytes += 4 * entry.numel;
      unit = static_cast<int>(bucket);
      name = fmt::format("bucket {}", unit);
    } else {
      unit = unit_of(entry.name);
      name = unit < std::ssize(plan_.units) ? plan_.units[unit] : "other parameters";
    }
    const bool trainable = entry.group != kFrozen;
    const auto [found, added] = known.try_emplace({entry.level, unit, trainable}, segments_.size());
    if (added)
      segments_.push_back(
          {.level = entry.level, .unit = unit, .trainable = trainable, .name = std::move(name)});
    entry.segment = found->second;
  }
}

int FlatParams::unit_of(const std::string& name) const {
  const auto found = std::find_if(plan_.units.begin(), plan_.units.end(),
                                  [&](const std::string& unit) { return name.starts_with(unit); });
  return static_cast<int>(found - plan_.units.begin());
}

// Sets the offsets of entries and segments in the buffers.
void FlatParams::assign_offsets() {
  const auto take = [](int64_t& end, int64_t elements) {
    return std::exchange(end, end + elements);
  };
  int64_t grads = 0;
  int last = -1;
  for (Entry& entry : entries_) {
    const bool trainable = entry.group != kFrozen;
    if (entry.segment < 0) {
      entry.offset = take(size_, aligned(entry.numel));
      if (trainable) {
        take(grads, aligned(entry.numel));
        take(state_size_, aligned(entry.numel));
      }
    } else {
      Segment& segment = segments_[entry.segment];
      const int64_t whole = segment.shard_size * plan_.ranks;
      const bool whole_data = segment.level != ShardLevel::fsdp;
      if (std::exchange(last, entry.segment) != entry.segment) {
        segment.data_offset = take(size_, whole_data ? whole : segment.shard_size);
        if (trainable) {
          segment.grad_offset =
              take(grads, segment.level == ShardLevel::zero1 ? whole : segment.shard_size);
          segment.state_offset = take(state_size_, segment.shard_size);
        }
      }
      entry.offset = whole_data ? segment.data_offset + entry.segment_offset : -1;
    }
    if (trainable) trainable_size_ = size_;
    if (trainable && entry.level <= ShardLevel::zero1) whole_grad_size_ = grads;
  }
}

int64_t FlatParams::sharded_grad_size() const {
  int64_t elements = 0;
  for (const Segment& segment : segments_)
    if (segment.trainable && segment.level != ShardLevel::zero1) elements += segment.shard_size;
  return elements;
}

// Copies a parameter's values into the buffers, and makes the parameter and its gradient views of
// the buffers or of their segment's freeable storage.
void FlatParams::move_into_buffers(Entry& entry) {
  const at::Tensor& parameter = entry.parameter;
  const auto view = [&](const at::Tensor& flat, int64_t at) {
    return flat.as_strided(entry.shape, entry.strides, flat.storage_offset() + at);
  };
  at::Tensor home;
  if (entry.offset >= 0) {
    home = view(data_, entry.offset);
    home.copy_(parameter);
  } else {
    Segment& segment = segments_[entry.segment];
    int64_t first = 0, count = 0;
    if (owned_range(entry, first, count) && first < entry.numel) {
      count = std::min(count, entry.numel - first);
      const int64_t at =
          segment.data_offset + entry.segment_offset + first - plan_.rank * segment.shard_size;
      data_.narrow(0, at, count)
          .copy_(parameter.as_strided({count}, {1}, parameter.storage_offset() + first));
    }
    home = view(segment.parameters.tensor(), entry.segment_offset);
  }
  entry.parameter.set_data(home);
  const bool trainable = entry.group != kFrozen;
  entry.parameter.set_requires_grad(trainable);
  if (!trainable) return;
  const Segment* segment = entry.segment < 0 ? nullptr : &segments_[entry.segment];
  const bool freeable = segment && segment->level != ShardLevel::zero1;
  // Replicated entries come first in both buffers, so their gradients have the same offsets.
  entry.parameter.mutable_grad() =
      freeable  ? view(segment->gradients.tensor(), entry.segment_offset)
      : segment ? view(grads_, segment->grad_offset + entry.segment_offset)
                : view(grads_, entry.offset);
}

// Finds the elements of a sharded entry, including the gap after it, that are in this rank's
// shard. Returns false if there are none.
bool FlatParams::owned_range(const Entry& entry, int64_t& first, int64_t& count) const {
  const int64_t part = segments_[entry.segment].shard_size, begin = plan_.rank * part;
  first = std::max(begin - entry.segment_offset, int64_t{0});
  count = std::min(begin + part - entry.segment_offset, aligned(entry.numel)) - first;
  return count > 0;
}

std::vector<FlatParams::OwnedSlice> FlatParams::owned_slices() const {
  std::vector<OwnedSlice> all;
  for (const Entry& entry : entries_) {
    if (entry.group == kFrozen) continue;
    const int64_t length = aligned(entry.numel);
    if (entry.segment < 0) {
      all.push_back({&entry, 0, length, entry.offset, entry.offset, entry.offset});
      continue;
    }
    int64_t first = 0, count = 0;
    if (!owned_range(entry, first, count)) continue;
    const Segment& segment = segments_[entry.segment];
    const int64_t whole = entry.segment_offset + first,
                  own = whole - plan_.rank * segment.shard_size;
    const bool whole_data = entry.level != ShardLevel::fsdp;
    const bool whole_grad = entry.level == ShardLevel::zero1;
    all.push_back({&entry, first, count, segment.data_offset + (whole_data ? whole : own),
                   segment.grad_offset + (whole_grad ? whole : own), segment.state_offset + own});
  }
  return all;
}

std::vector<FlatParams::Slice> FlatParams::slices(BufferKind kind) const {
  std::vector<Slice> all;
  for (const Entry& entry : entries_) {
    if (entry.group == kFrozen && kind != BufferKind::data) continue;
    const Segment* segment = entry.segment < 0 ? nullptr : &segments_[entry.segment];
    if (kind == BufferKind::data ? entry.offset >= 0 : segment == nullptr) {
      all.push_back({&entry, 0, entry.numel, entry.offset, true});
    } else if (kind == BufferKind::grads && entry.level == ShardLevel::zero1) {
      all.push_back({&entry, 0, entry.numel, segment->grad_offset + entry.segment_offset, true});
    } else {
      int64_t first = 0, count = 0;
      const bool any = owned_range(entry, first, count) && first < entry.numel;
      if (!any) {
        all.push_back({&entry, 0, 0, 0, false});
        continue;
      }
      const int64_t base = kind == BufferKind::data    ? segment->data_offset
                           : kind == BufferKind::grads ? segment->grad_offset
                                                       : segment->state_offset;
      all.push_back({&entry, first, std::min(count, entry.numel - first),
                     base + entry.segment_offset + first - plan_.rank * segment->shard_size,
                     false});
    }
  }
  return all;
}

std::vector<at::Tensor> FlatParams::replicated_data() const {
  // fsdp shards are at the end of the trainable parameters and at the end of the frozen ones.
  int64_t trainable = trainable_size_, all = size_;
  for (const Segment& segment : segments_) {
    if (segment.level != ShardLevel::fsdp) continue;
    int64_t& end = segment.trainable ? trainable : all;
    end = std::min(end, segment.data_offset);
  }
  if (trainable == trainable_size_) return {data_.narrow(0, 0, all)};
  return {data_.narrow(0, 0, trainable), data_.narrow(0, trainable_size_, all - trainable_size_)};
}

at::Tensor FlatParams::new_buffer(at::ScalarType dtype) const {
  return allocate(state_size_, dtype);
}

at::Tensor FlatParams::allocate(int64_t elements, at::ScalarType dtype) const {
  // LibTorch's allocator guarantees an alignment of 64 bytes only.
  constexpr int64_t kBytes = kAlign * static_cast<int64_t>(sizeof(float));
  const auto width = static_cast<int64_t>(c10::elementSize(dtype));
  const at::Tensor whole =
      at::zeros({elements + kBytes / width}, at::TensorOptions(dtype).device(device_));
  int64_t skip = 0;
  if (device_.is_cpu()) {
    const auto address = reinterpret_cast<intptr_t>(whole.const_data_ptr());
    skip = (kBytes - address % kBytes) % kBytes / width;
  }
  return whole.narrow(0, skip, elements);
}

}  // namespace bv
