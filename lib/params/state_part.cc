#include "lib/params/state_part.h"

#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "lib/device/dtype_name.h"
#include "lib/util/error.h"
#include "lib/util/text.h"

namespace bv {
namespace {

// The tensor of one name in a checkpoint: whole, in pieces, or missing (both null).
struct FoundTensor {
  const at::Tensor* whole = nullptr;
  const PiecedTensor* pieced = nullptr;
  at::IntArrayRef sizes() const { return whole ? whole->sizes() : at::IntArrayRef(pieced->shape); }
  at::ScalarType type() const { return whole ? whole->scalar_type() : pieced->type; }
};

FoundTensor find(const std::string& name, const NamedTensors& from, const PiecedTensors& pieced) {
  FoundTensor found;
  if (const auto at = from.find(name); at != from.end())
    found.whole = &at->second;
  else if (const auto at = pieced.find(name); at != pieced.end())
    found.pieced = &at->second;
  return found;
}

at::IntArrayRef sizes_of(const StatePart& part) {
  return part.whole ? part.values.sizes() : at::IntArrayRef(part.shape);
}

void copy_part(const StatePart& part, const FoundTensor& from) {
  at::Tensor to = part.values;
  if (!part.whole) {
    if (from.whole)
      copy_range(to, part.first, part.strides, *from.whole);
    else
      copy_range(to, part.first, part.strides, *from.pieced);
  } else if (from.whole) {
    to.copy_(*from.whole);
  } else if (to.strides() == at::IntArrayRef(from.pieced->strides)) {
    copy_range(to.as_strided({to.numel()}, {1}, to.storage_offset()), 0, from.pieced->strides,
               *from.pieced);
  } else {
    to.copy_(assemble(*from.pieced));
  }
}

}  // namespace

void copy_in(const std::vector<StatePart>& parts, const NamedTensors& from,
             const PiecedTensors& pieced, const std::vector<std::string>& prefixes,
             const std::string& origin) {
  std::vector<std::string> missing, unexpected, different;
  std::set<std::string> known;
  for (const StatePart& part : parts) {
    known.insert(part.name);
    const FoundTensor found = find(part.name, from, pieced);
    if (!found.whole && !found.pieced) {
      missing.push_back(part.name);
    } else if (found.sizes() != sizes_of(part) || found.type() != part.values.scalar_type()) {
      different.push_back(
          fmt::format("{} is {} {} in the checkpoint but {} {} in the model", part.name,
                      dtype_name(found.type()), shape_text(found.sizes()),
                      dtype_name(part.values.scalar_type()), shape_text(sizes_of(part))));
    }
  }
  const auto note_unexpected = [&](const std::string& name) {
    const bool ours = std::any_of(prefixes.begin(), prefixes.end(),
                                  [&](const std::string& p) { return name.starts_with(p); });
    if (ours && !known.contains(name)) unexpected.push_back(name);
  };
  for (const auto& [name, tensor] : from) note_unexpected(name);
  for (const auto& [name, tensor] : pieced) note_unexpected(name);
  for (auto* names : {&missing, &unexpected, &different}) std::sort(names->begin(), names->end());
  std::vector<std::string> reasons;
  if (!missing.empty()) reasons.push_back("missing " + short_list(missing));
  if (!unexpected.empty()) reasons.push_back("unexpected " + short_list(unexpected));
  if (!different.empty()) reasons.push_back("different " + short_list(different));
  if (!reasons.empty()) {
    throw Error(Exit::usage, origin, "does not fit this config: " + join(reasons, "; "));
  }
  const c10::AutoGradMode no_grad(false);
  for (const StatePart& part : parts) {
    // On the meta device (a dry run) there is nothing to copy: only the check above matters.
    if (!part.values.is_meta()) copy_part(part, find(part.name, from, pieced));
  }
}

void copy_in(const std::vector<std::pair<std::string, at::Tensor>>& views, const NamedTensors& from,
             const std::vector<std::string>& prefixes, const std::string& origin) {
  std::vector<StatePart> parts;
  for (const auto& [name, view] : views) parts.push_back({.name = name, .values = view});
  copy_in(parts, from, {}, prefixes, origin);
}

}  // namespace bv
