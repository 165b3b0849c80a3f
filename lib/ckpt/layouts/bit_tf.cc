// The published BiT files, written by TensorFlow (big_vision: models/bit_paper.py, `load`).
#include <ATen/core/Tensor.h>

#include <map>
#include <string_view>

#include "lib/ckpt/layouts/layouts.h"
#include "lib/util/text.h"

namespace bv {

namespace {

constexpr const char* kRoot = "resnet/";

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// Whether `part` is standardized_conv2d or standardized_conv2d_<n>.
bool is_convolution(std::string_view part) {
  constexpr std::string_view kName = "standardized_conv2d";
  if (!part.starts_with(kName)) return false;
  part.remove_prefix(kName.size());
  return part.empty() || (part[0] == '_' && is_number(part.substr(1)));
}

const char* norm_leaf(std::string_view leaf) {
  if (leaf == "gamma") return "scale";
  return leaf == "beta" ? "bias" : nullptr;
}

// Returns our name for a name below "resnet/"; "" if there is none.
std::string new_name(const std::vector<std::string>& parts) {
  const size_t n = parts.size();
  const std::string& leaf = parts.back();
  const bool kernel = leaf == "kernel" && n >= 2 && is_convolution(parts[n - 2]);
  if (n == 3 && parts[0] == "root_block" && kernel) return "root_block/conv_root/kernel";
  if (n == 2 && parts[0] == "group_norm" && norm_leaf(leaf)) {
    return std::string("norm-pre-head/") + norm_leaf(leaf);
  }
  if (n == 3 && parts[0] == "head" && parts[1] == "conv2d") {
    return leaf == "kernel" || leaf == "bias" ? "head/" + leaf : "";
  }
  if (n < 5 || !parts[0].starts_with("block") || !parts[1].starts_with("unit")) return "";
  static const std::map<std::string, std::string> kPlace = {{"a", "1"}, {"b", "2"}, {"c", "3"}};
  const auto place = kPlace.find(parts[2]);
  if (place == kPlace.end()) return "";
  const std::string unit = parts[0] + "/" + parts[1] + "/";
  if (n == 5 && kernel) return unit + "conv" + place->second + "/kernel";
  if (n == 5 && parts[3] == "group_norm" && norm_leaf(leaf)) {
    return unit + "gn" + place->second + "/" + norm_leaf(leaf);
  }
  if (n == 6 && parts[2] == "a" && parts[3] == "proj" && kernel) return unit + "conv_proj/kernel";
  return "";
}

}  // namespace

bool is_bit_tf(const NamedTensors& tree) {
  const auto found = tree.lower_bound(kRoot);
  return found != tree.end() && found->first.starts_with(kRoot);
}

NamedTensors from_bit_tf(const NamedTensors& tree, const std::string& origin) {
  NamedTensors result;
  for (const auto& [old, value] : tree) {
    const std::string name = old.starts_with(kRoot)
                                 ? new_name(split(old.substr(std::string_view(kRoot).size()), '/'))
                                 : "";
    at::Tensor converted = value;
    if (name.find("norm-pre-head/") == 0 || name.find("/gn") != std::string::npos) {
      if (value.dim() == 1) converted = value.view({1, 1, 1, value.size(0)});
    } else if (name == "head/kernel") {
      expect_dimensions(old, value, 4, origin);
      if (value.size(0) == 1 && value.size(1) == 1) converted = value.select(0, 0).select(0, 0);
    }
    put_new(result, name.empty() ? old : name, converted, origin);
  }
  return result;
}

}  // namespace bv
