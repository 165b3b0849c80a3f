#include "lib/params/flat_params.h"

#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "lib/util/error.h"

namespace bv {
namespace {

int64_t aligned(int64_t elements) {
  return (elements + FlatParams::kAlign - 1) / FlatParams::kAlign * FlatParams::kAlign;
}

// The memory that the model's parameters had, which the heap would keep.
constexpr int64_t kTrimBytes = 64 << 20;
void give_back_freed() { ::malloc_trim(0); }

}  // namespace

FlatParams::FlatParams(Model& model, std::span<const int> groups, ShardingPlan sharing,
                       const std::function<void(size_t)>& init)
    : device_(sharing.device), plan_(std::move(sharing)) {
  const auto named = named_parameters(model);
  check(named.size() == groups.size(), "{} parameters, {} groups", named.size(), groups.size());
  if (plan_.ranks == 1 || plan_.levels.empty())
    plan_.levels.assign(named.size(), ShardLevel::replicated);
  check(named.size() == plan_.levels.size(), "{} parameters, {} ways to keep them", named.size(),
        plan_.levels.size());
  for (size_t i = 0; i < named.size(); ++i) {
    const auto& [name, parameter] = named[i];
    check(parameter.scalar_type() == at::kFloat && parameter.is_non_overlapping_and_dense(),
          "parameter {} is not dense float32", name);
    if (parameter.is_meta()) device_ = parameter.device();  // shapes alone
    const bool frozen = groups[i] == kFrozen;
    const bool own_part = plan_.levels[i] == ShardLevel::fsdp;  // all a frozen one can share out
    entries_.push_back({.name = name,
                        .parameter = parameter,
                        .shape = parameter.sizes().vec(),
                        .strides = parameter.strides().vec(),
                        .numel = parameter.numel(),
                        .group = groups[i],
                        .level = frozen && !own_part ? ShardLevel::replicated : plan_.levels[i]});
  }
  std::vector<size_t> order(named.size());
  std::iota(order.rbegin(), order.rend(), 0);
  lay_out(std::move(order));
  place();
  data_ = allocate(size_, at::kFloat);
  grads_ = allocate(whole_grads_ + parts_of_gradients(), at::kFloat);
  const c10::AutoGradMode no_grad(false);
  std::map<std::string, size_t> registered;
  for (size_t i = 0; i < named.size(); ++i) registered[named[i].first] = i;
  int64_t moved = 0;
  for (Entry& entry : entries_) {
    if (init) init(registered.at(entry.name));
    move(entry);
    moved += 4 * entry.numel;
    if (moved < kTrimBytes) continue;
    give_back_freed();
    moved = 0;
  }
  give_back_freed();
}

// Brings the entries into the order of the buffers, `order` being that of backward.
void FlatParams::lay_out(std::vector<size_t> order) {
  cut_segments(order);
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
    entry.at = filled[entry.segment];
    filled[entry.segment] += aligned(entry.numel);
  }
  for (size_t i = 0; i < segments_.size(); ++i) {
    Segment& segment = segments_[i];
    segment.part = aligned((filled[i] + plan_.ranks - 1) / plan_.ranks);
    const int64_t whole = segment.part * plan_.ranks;
    if (segment.level == ShardLevel::fsdp) segment.parameters = FreeableStorage(whole, device_);
    if (segment.level != ShardLevel::zero1 && segment.trainable)
      segment.gradients = FreeableStorage(whole, device_);
  }
}

// Gives every entry that is shared out its segment: zero1 and zero2 in buckets in the order of
// backward, so that what is sent at a time is bounded; fsdp by unit.
void FlatParams::cut_segments(const std::vector<size_t>& order) {
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

// Gives entries and segments their places in the buffers.
void FlatParams::place() {
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
        take(state_, aligned(entry.numel));
      }
    } else {
      Segment& segment = segments_[entry.segment];
      const int64_t whole = segment.part * plan_.ranks;
      const bool whole_data = segment.level != ShardLevel::fsdp;
      if (std::exchange(last, entry.segment) != entry.segment) {
        segment.data = take(size_, whole_data ? whole : segment.part);
        if (trainable) {
          segment.grad = take(grads, segment.level == ShardLevel::zero1 ? whole : segment.part);
          segment.state = take(state_, segment.part);
        }
      }
      entry.offset = whole_data ? segment.data + entry.at : -1;
    }
    if (trainable) trainable_ = size_;
    if (trainable && entry.level <= ShardLevel::zero1) whole_grads_ = grads;
  }
}

int64_t FlatParams::parts_of_gradients() const {
  int64_t elements = 0;
  for (const Segment& segment : segments_)
    if (segment.trainable && segment.level != ShardLevel::zero1) elements += segment.part;
  return elements;
}

// Moves a parameter's values into the buffers, and the parameter above their memory.
void FlatParams::move(Entry& entry) {
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
    if (owns(entry, first, count) && first < entry.numel) {
      count = std::min(count, entry.numel - first);
      const int64_t at = segment.data + entry.at + first - plan_.rank * segment.part;
      data_.narrow(0, at, count)
          .copy_(parameter.as_strided({count}, {1}, parameter.storage_offset() + first));
    }
    home = view(segment.parameters.tensor(), entry.at);
  }
  entry.parameter.set_data(home);
  const bool trainable = entry.group != kFrozen;
  entry.parameter.set_requires_grad(trainable);
  if (!trainable) return;
  const Segment* segment = entry.segment < 0 ? nullptr : &segments_[entry.segment];
  const bool lent = segment && segment->level != ShardLevel::zero1;
  // Whole gradients lie in the order of data(): replicated ones at the same place.
  entry.parameter.mutable_grad() = lent      ? view(segment->gradients.tensor(), entry.at)
                                   : segment ? view(grads_, segment->grad + entry.at)
                                             : view(grads_, entry.offset);
}

// The elements of a shared entry, gap behind it included, that lie in this rank's part.
bool FlatParams::owns(const Entry& entry, int64_t& first, int64_t& count) const {
  const int64_t part = segments_[entry.segment].part, begin = plan_.rank * part;
  first = std::max(begin - entry.at, int64_t{0});
  count = std::min(begin + part - entry.at, aligned(entry.numel)) - first;
  return count > 0;
}

std::vector<FlatParams::Own> FlatParams::owned() const {
  std::vector<Own> all;
  for (const Entry& entry : entries_) {
    if (entry.group == kFrozen) continue;
    const int64_t length = aligned(entry.numel);
    if (entry.segment < 0) {
      all.push_back({&entry, 0, length, entry.offset, entry.offset, entry.offset});
      continue;
    }
    int64_t first = 0, count = 0;
    if (!owns(entry, first, count)) continue;
    const Segment& segment = segments_[entry.segment];
    const int64_t whole = entry.at + first, own = whole - plan_.rank * segment.part;
    const bool whole_data = entry.level != ShardLevel::fsdp;
    const bool whole_grad = entry.level == ShardLevel::zero1;
    all.push_back({&entry, first, count, segment.data + (whole_data ? whole : own),
                   segment.grad + (whole_grad ? whole : own), segment.state + own});
  }
  return all;
}

std::vector<FlatParams::Stretch> FlatParams::stretches(Space space) const {
  std::vector<Stretch> all;
  for (const Entry& entry : entries_) {
    if (entry.group == kFrozen && space != Space::data) continue;
    const Segment* segment = entry.segment < 0 ? nullptr : &segments_[entry.segment];
    if (space == Space::data ? entry.offset >= 0 : segment == nullptr) {
      all.push_back({&entry, 0, entry.numel, entry.offset, true});
    } else if (space == Space::grads && entry.level == ShardLevel::zero1) {
      all.push_back({&entry, 0, entry.numel, segment->grad + entry.at, true});
    } else {
      int64_t first = 0, count = 0;
      const bool any = owns(entry, first, count) && first < entry.numel;
      if (!any) {
        all.push_back({&entry, 0, 0, 0, false});
        continue;
      }
      const int64_t base = space == Space::data    ? segment->data
                           : space == Space::grads ? segment->grad
                                                   : segment->state;
      all.push_back({&entry, first, std::min(count, entry.numel - first),
                     base + entry.at + first - plan_.rank * segment->part, false});
    }
  }
  return all;
}

std::vector<at::Tensor> FlatParams::everywhere() const {
  // Parts of fsdp lie at the end of the trainable ones, and at the end of all.
  int64_t trainable = trainable_, all = size_;
  for (const Segment& segment : segments_) {
    if (segment.level != ShardLevel::fsdp) continue;
    int64_t& end = segment.trainable ? trainable : all;
    end = std::min(end, segment.data);
  }
  if (trainable == trainable_) return {data_.narrow(0, 0, all)};
  return {data_.narrow(0, 0, trainable), data_.narrow(0, trainable_, all - trainable_)};
}

std::pair<int64_t, int64_t> FlatParams::group_range(int group) const {
  int64_t begin = -1, end = -1;
  for (const Entry& entry : entries_) {
    if (entry.group != group) continue;
    if (begin < 0) begin = entry.offset;
    end = entry.offset + aligned(entry.numel);
  }
  check(begin >= 0, "group {} has no parameters", group);
  return {begin, end};
}

void FlatParams::zero_grad() { grads_.narrow(0, 0, whole_grads_).zero_(); }

at::Tensor FlatParams::new_buffer(at::ScalarType dtype) const { return allocate(state_, dtype); }

std::vector<std::pair<std::string, at::Tensor>> FlatParams::views(const at::Tensor& flat,
                                                                  const std::string& prefix) const {
  std::vector<std::pair<std::string, at::Tensor>> all;
  for (const Entry& entry : entries_) {
    if (entry.offset < 0) continue;
    if (entry.offset + entry.numel > flat.numel()) break;
    all.emplace_back(prefix + entry.name, flat.as_strided(entry.shape, entry.strides,
                                                          flat.storage_offset() + entry.offset));
  }
  return all;
}

at::Tensor FlatParams::allocate(int64_t elements, at::ScalarType dtype) const {
  // LibTorch's allocator promises 64 bytes only.
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
