#include "lib/train/params.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <climits>
#include <numeric>
#include <set>

#include "lib/util/error.h"
#include "lib/util/text.h"

namespace bv {
namespace {

int64_t aligned(int64_t elements) {
  return (elements + FlatParams::kAlign - 1) / FlatParams::kAlign * FlatParams::kAlign;
}

}  // namespace

FlatParams::FlatParams(Model& model, std::span<const int> groups) : device_(at::kCPU) {
  const auto named = named_parameters(model);
  check(named.size() == groups.size(), "{} parameters, {} groups", named.size(), groups.size());
  std::vector<size_t> order(named.size());
  std::iota(order.rbegin(), order.rend(), 0);
  const auto rank = [&](size_t i) { return groups[i] == kFrozen ? INT_MAX : groups[i]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return rank(a) < rank(b); });

  const c10::AutoGradMode no_grad(false);
  for (size_t i : order) {
    const auto& [name, parameter] = named[i];
    check(parameter.scalar_type() == at::kFloat && parameter.is_non_overlapping_and_dense(),
          "parameter {} is not dense float32", name);
    device_ = parameter.device();
    entries_.push_back({.name = name,
                        .parameter = parameter,
                        .shape = parameter.sizes().vec(),
                        .strides = parameter.strides().vec(),
                        .offset = size_,
                        .numel = parameter.numel(),
                        .group = groups[i]});
    size_ += aligned(parameter.numel());
    if (groups[i] != kFrozen) trainable_ = size_;
  }
  data_ = allocate(size_, at::kFloat);
  grads_ = allocate(trainable_, at::kFloat);
  const auto values = views(data_, "");
  const auto gradients = views(grads_, "");
  for (size_t i = 0; i < entries_.size(); ++i) {
    Entry& entry = entries_[i];
    values[i].second.copy_(entry.parameter);
    entry.parameter.set_data(values[i].second);
    entry.parameter.set_requires_grad(entry.group != kFrozen);
    if (entry.group != kFrozen) entry.parameter.mutable_grad() = gradients[i].second;
  }
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

void FlatParams::zero_grad() { grads_.zero_(); }

at::Tensor FlatParams::new_buffer(at::ScalarType dtype) const {
  return allocate(trainable_, dtype);
}

std::vector<std::pair<std::string, at::Tensor>> FlatParams::views(const at::Tensor& flat,
                                                                  const std::string& prefix) const {
  std::vector<std::pair<std::string, at::Tensor>> all;
  for (const Entry& entry : entries_) {
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

void copy_in(const std::vector<std::pair<std::string, at::Tensor>>& views, const NamedTensors& from,
             const std::vector<std::string>& prefixes, const std::string& origin) {
  std::vector<std::string> missing, unexpected, different;
  std::set<std::string> known;
  for (const auto& [name, view] : views) {
    known.insert(name);
    const auto found = from.find(name);
    if (found == from.end()) {
      missing.push_back(name);
    } else if (found->second.sizes() != view.sizes() ||
               found->second.scalar_type() != view.scalar_type()) {
      const at::Tensor& there = found->second;
      different.push_back(
          fmt::format("{} is {} ({}) there, {} ({}) here", name, c10::toString(there.scalar_type()),
                      fmt::join(there.sizes(), ", "), c10::toString(view.scalar_type()),
                      fmt::join(view.sizes(), ", ")));
    }
  }
  for (const auto& [name, tensor] : from) {
    const bool ours = std::any_of(prefixes.begin(), prefixes.end(),
                                  [&](const std::string& p) { return name.starts_with(p); });
    if (ours && !known.contains(name)) unexpected.push_back(name);
  }
  std::sort(missing.begin(), missing.end());
  std::sort(different.begin(), different.end());
  std::vector<std::string> reasons;
  if (!missing.empty()) reasons.push_back("missing " + join(missing, ", "));
  if (!unexpected.empty()) reasons.push_back("unexpected " + join(unexpected, ", "));
  if (!different.empty()) reasons.push_back("different " + join(different, ", "));
  if (!reasons.empty()) {
    throw Error(Exit::usage, origin, "does not fit this config: " + join(reasons, "; "));
  }
  const c10::AutoGradMode no_grad(false);
  for (const auto& [name, view] : views) at::Tensor(view).copy_(from.at(name));
}

}  // namespace bv
