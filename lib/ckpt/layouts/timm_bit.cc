// timm: timm/models/resnetv2.py (ResNetV2, preact, with a plain stem, as resnetv2_*_bit; timm 0.9
// to 1.0). In timm, convolutions are (out, in, k, k), norms are (C), and the head is a 1x1
// convolution.
#include <ATen/core/Tensor.h>

#include <charconv>
#include <optional>
#include <string_view>

#include "lib/ckpt/layouts/layouts.h"
#include "lib/util/error.h"

namespace bv {

namespace {

struct Name {
  std::string_view torch, ours;
};
constexpr Name kOutside[] = {
    {"stem.conv.weight", "root_block/conv_root/kernel"},
    {"norm.weight", "norm-pre-head/scale"},
    {"norm.bias", "norm-pre-head/bias"},
    {"head.fc.weight", "head/kernel"},
    {"head.fc.bias", "head/bias"},
};
// Names below stages.<s>.blocks.<b>. in timm and block<s+1>/unit<b+1, two digits>/ here.
constexpr Name kInUnit[] = {
    {"norm1.weight", "gn1/scale"},    {"norm1.bias", "gn1/bias"},
    {"norm2.weight", "gn2/scale"},    {"norm2.bias", "gn2/bias"},
    {"norm3.weight", "gn3/scale"},    {"norm3.bias", "gn3/bias"},
    {"conv1.weight", "conv1/kernel"}, {"conv2.weight", "conv2/kernel"},
    {"conv3.weight", "conv3/kernel"}, {"downsample.conv.weight", "conv_proj/kernel"},
};

// Removes the prefix `word` from `name`; returns false if it is not there.
bool take(std::string_view& name, std::string_view word) {
  if (!name.starts_with(word)) return false;
  name.remove_prefix(word.size());
  return true;
}

// Removes a leading number of at most four digits from `name` and returns it.
std::optional<int> take_number(std::string_view& name) {
  int number = 0;
  const std::string_view digits = name.substr(0, 4);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  name.remove_prefix(static_cast<size_t>(end - digits.data()));
  return number;
}

// The position of a parameter in the network; both numbers count from 0.
struct InUnit {
  int stage = 0, unit = 0;
  std::string_view leaf;
};
std::optional<InUnit> parse(std::string_view name, std::string_view before,
                            std::string_view between, std::string_view behind, int first) {
  if (!take(name, before)) return std::nullopt;
  const auto stage = take_number(name);
  if (!stage || !take(name, between)) return std::nullopt;
  const auto unit = take_number(name);
  if (!unit || !take(name, behind) || *stage < first || *unit < first) return std::nullopt;
  return InUnit{*stage - first, *unit - first, name};
}

// Returns our name for a timm name; "" if there is none.
std::string our_name(const std::string& theirs) {
  for (const auto& [torch, ours] : kOutside) {
    if (theirs == torch) return std::string(ours);
  }
  const auto place = parse(theirs, "stages.", ".blocks.", ".", 0);
  for (const auto& [torch, ours] : kInUnit) {
    if (place && place->leaf == torch)
      return fmt::format("block{}/unit{:02}/{}", place->stage + 1, place->unit + 1, ours);
  }
  return "";
}

std::string their_name(const std::string& name) {
  for (const auto& [torch, ours] : kOutside) {
    if (name == ours) return std::string(torch);
  }
  const auto place = parse(name, "block", "/unit", "/", 1);
  for (const auto& [torch, ours] : kInUnit) {
    if (place && place->leaf == ours)
      return fmt::format("stages.{}.blocks.{}.{}", place->stage, place->unit, torch);
  }
  return "";
}

bool is_norm(const std::string& name) {
  return name.ends_with("/scale") || name.ends_with("/bias");
}

}  // namespace

bool is_timm_bit(const NamedTensors& tree) { return tree.count("stem.conv.weight") > 0; }

NamedTensors from_timm_bit(const NamedTensors& tree, const std::string& origin) {
  NamedTensors result;
  for (const auto& [theirs, value] : tree) {
    const std::string name = our_name(theirs);
    at::Tensor converted = value;
    if (name == "head/kernel") {
      expect_dimensions(theirs, value, 4, origin);
      if (value.size(2) == 1 && value.size(3) == 1) converted = value.flatten(1).t();
    } else if (name.ends_with("/kernel")) {
      expect_dimensions(theirs, value, 4, origin);
      converted = value.permute({2, 3, 1, 0});
    } else if (is_norm(name) && name != "head/bias") {
      expect_dimensions(theirs, value, 1, origin);
      converted = value.view({1, 1, 1, value.size(0)});
    }
    put_new(result, name.empty() ? theirs : name, converted, origin);
  }
  return result;
}

NamedTensors to_timm_bit(const NamedTensors& bit_paper) {
  NamedTensors result;
  for (const auto& [name, value] : bit_paper) {
    const std::string theirs = their_name(name);
    check(!theirs.empty(), "parameter {} has no name in timm", name);
    at::Tensor converted = value;
    if (name == "head/kernel") {
      converted = value.t().unsqueeze(-1).unsqueeze(-1);
    } else if (name.ends_with("/kernel")) {
      converted = value.permute({3, 2, 0, 1});
    } else {
      converted = value.flatten();
    }
    result.emplace(theirs, converted.contiguous());
  }
  return result;
}

}  // namespace bv
