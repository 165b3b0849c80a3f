#include "lib/ckpt/layouts/transformer_names.h"

#include <ATen/ops/cat.h>

#include <algorithm>

#include "lib/util/error.h"
#include "lib/util/text.h"

namespace bv {

namespace {

// Returns `name` without its suffix ".weight" or ".bias". Sets `is_weight` to whether that was
// ".weight".
std::optional<std::string> layer_of(const std::string& name, bool& is_weight) {
  for (const std::string_view suffix : {".weight", ".bias"}) {
    if (!name.ends_with(suffix)) continue;
    is_weight = suffix == ".weight";
    return name.substr(0, name.size() - suffix.size());
  }
  return std::nullopt;
}

at::Tensor part_of(const std::string& name, const at::Tensor& value, const NameRow& row,
                   const std::string& origin) {
  if (row.parts == 1) return value;
  if (value.dim() < 1 || value.size(0) % row.parts != 0) {
    throw Error(Exit::usage, origin,
                fmt::format("{} has shape {}: its first axis should hold {} layers of one size",
                            name, shape_text(value.sizes()), row.parts));
  }
  const int64_t size = value.size(0) / row.parts;
  return value.narrow(0, row.part * size, size);
}

// Returns the size of a head if `n` features are split into `heads`.
int64_t head_size(const std::string& name, int64_t n, int64_t heads, const std::string& origin) {
  if (n > 0 && n % heads == 0) return n / heads;
  throw Error(
      Exit::usage, origin,
      fmt::format("{}: {} features can't be split into the model's {} heads", name, n, heads));
}

at::Tensor weight_from_torch(const std::string& name, const at::Tensor& value, Layout layout,
                             int64_t heads, const std::string& origin) {
  if (layout == Layout::same) return value;
  if (layout == Layout::patch) {
    expect_dimensions(name, value, 4, origin);
    return value.permute({2, 3, 1, 0});
  }
  expect_dimensions(name, value, 2, origin);
  const at::Tensor kernel = value.t();
  if (layout == Layout::split) {
    return kernel.unflatten(1, {heads, head_size(name, kernel.size(1), heads, origin)});
  }
  if (layout == Layout::merge) {
    return kernel.unflatten(0, {heads, head_size(name, kernel.size(0), heads, origin)});
  }
  return kernel;
}

at::Tensor bias_from_torch(const std::string& name, const at::Tensor& value, Layout layout,
                           int64_t heads, const std::string& origin) {
  if (layout != Layout::split) return value;
  expect_dimensions(name, value, 1, origin);
  return value.unflatten(0, {heads, head_size(name, value.size(0), heads, origin)});
}

at::Tensor weight_to_torch(const at::Tensor& value, Layout layout) {
  switch (layout) {
    case Layout::same:
      return value;
    case Layout::patch:
      return value.permute({3, 2, 0, 1});
    case Layout::split:
      return value.flatten(1).t();
    case Layout::merge:
      return value.flatten(0, 1).t();
    case Layout::linear:
      return value.t();
  }
  throw Error(Exit::internal, "internal", "no such layout");
}

// The row and block number of one of our parameters.
struct Found {
  const NameRow* row = nullptr;
  std::string number;
  bool bias = false;
};
Found find_row(const std::string& name, std::span<const NameRow> rows) {
  for (const NameRow& row : rows) {
    if (!row.weight) {
      if (const auto number = match_number(row.ours, name)) return {&row, *number, false};
      continue;
    }
    for (const bool bias : {false, true}) {
      const std::string pattern = std::string(row.ours) + "/" + (bias ? "bias" : row.weight);
      if (const auto number = match_number(pattern, name)) return {&row, *number, bias};
    }
  }
  return {};
}

}  // namespace

std::optional<std::string> match_number(std::string_view pattern, std::string_view name) {
  const size_t hole = pattern.find("{}");
  if (hole == std::string_view::npos) {
    return pattern == name ? std::optional(std::string()) : std::nullopt;
  }
  const std::string_view before = pattern.substr(0, hole), after = pattern.substr(hole + 2);
  if (name.size() <= before.size() + after.size() || !name.starts_with(before) ||
      !name.ends_with(after)) {
    return std::nullopt;
  }
  name = name.substr(before.size(), name.size() - before.size() - after.size());
  const bool digits = name.find_first_not_of("0123456789") == std::string_view::npos;
  return digits ? std::optional(std::string(name)) : std::nullopt;
}

std::string with_number(std::string_view pattern, const std::string& number) {
  const size_t hole = pattern.find("{}");
  std::string name(pattern);
  return hole == std::string_view::npos ? name : name.replace(hole, 2, number);
}

NamedTensors from_torch(const NamedTensors& tree, std::span<const NameRow> rows, int64_t heads,
                        const std::string& origin) {
  NamedTensors result;
  for (const auto& [name, value] : tree) {
    bool matched = false, is_weight = false;
    const auto layer = layer_of(name, is_weight);
    for (const NameRow& row : rows) {
      if (!row.weight) {
        if (const auto number = match_number(row.torch, name)) {
          put_new(result, with_number(row.ours, *number), value, origin);
          matched = true;
        }
        continue;
      }
      const auto number = layer ? match_number(row.torch, *layer) : std::nullopt;
      if (!number) continue;
      matched = true;
      const at::Tensor part = part_of(name, value, row, origin);
      const at::Tensor converted = is_weight
                                       ? weight_from_torch(name, part, row.layout, heads, origin)
                                       : bias_from_torch(name, part, row.layout, heads, origin);
      put_new(result, with_number(row.ours, *number) + "/" + (is_weight ? row.weight : "bias"),
              converted, origin);
    }
    if (!matched) put_new(result, name, value, origin);
  }
  return result;
}

NamedTensors to_torch(const NamedTensors& tree, std::span<const NameRow> rows) {
  NamedTensors result;
  std::map<std::string, std::vector<at::Tensor>> parts;
  for (const auto& [name, value] : tree) {
    const Found found = find_row(name, rows);
    check(found.row != nullptr, "parameter {} has no name in timm", name);
    std::string theirs = with_number(found.row->torch, found.number);
    at::Tensor converted = value;
    if (found.row->weight) {
      theirs += found.bias ? ".bias" : ".weight";
      if (!found.bias) converted = weight_to_torch(value, found.row->layout);
      if (found.bias && found.row->layout == Layout::split) converted = value.flatten();
    }
    std::vector<at::Tensor>& all = parts[theirs];
    all.resize(static_cast<size_t>(found.row->parts));
    all[static_cast<size_t>(found.row->part)] = converted;
  }
  for (const auto& [name, all] : parts) result.emplace(name, at::cat(all).contiguous());
  return result;
}

}  // namespace bv
