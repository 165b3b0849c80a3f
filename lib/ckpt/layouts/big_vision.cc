// Old files of big_vision's vit and mlp_mixer: models/vit.py, `fix_old_checkpoints`, and
// models/mlp_mixer.py, `load`.
#include <ATen/core/Tensor.h>
#include <ATen/ops/add.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <tuple>

#include "lib/ckpt/layouts/layouts.h"
#include "lib/report/log.h"
#include "lib/util/error.h"
#include "lib/util/text.h"

namespace bv {

namespace {

constexpr const char* kPositions = "pos_embedding";

// Splits "LayerNorm_2" into "LayerNorm" and "2"; a name without a number into the name and "".
std::pair<std::string, std::string> split_number(const std::string& name) {
  const size_t digits = name.find_last_not_of("0123456789") + 1;
  if (digits == name.size() || digits < 2 || name[digits - 1] != '_') return {name, ""};
  return {name.substr(0, digits - 1), name.substr(digits)};
}

// Returns a sort key for numbers of any length: without leading zeros, the longer one is larger.
auto natural(const std::string& digits) {
  const std::string value = digits.substr(std::min(digits.find_first_not_of('0'), digits.size()));
  return std::make_tuple(value.size(), value, digits.size());
}

// Returns the new names of the children of one node: those that end in _<number> are numbered from
// 0 for each base name, in the order of their numbers.
std::map<std::string, std::string> renumbered(const std::set<std::string>& children) {
  std::map<std::string, std::vector<std::string>> numbers;
  std::map<std::string, std::string> renamed;
  for (const std::string& child : children) {
    const auto [base, digits] = split_number(child);
    renamed[child] = child;
    if (!digits.empty()) numbers[base].push_back(digits);
  }
  for (auto& [base, all] : numbers) {
    std::sort(all.begin(), all.end(),
              [](const auto& a, const auto& b) { return natural(a) < natural(b); });
    for (size_t i = 0; i < all.size(); ++i) {
      renamed[base + "_" + all[i]] = base + "_" + std::to_string(i);
    }
  }
  return renamed;
}

NamedTensors renumber(const NamedTensors& tree, const std::string& origin) {
  std::map<std::string, std::set<std::string>> children;  // by the old path of their parent
  for (const auto& [name, value] : tree) {
    for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
      end = name.find('/', begin);
      children[name.substr(0, begin)].insert(name.substr(begin, end - begin));
    }
  }
  std::map<std::string, std::map<std::string, std::string>> renamed;
  for (const auto& [parent, level] : children) renamed[parent] = renumbered(level);
  NamedTensors result;
  for (const auto& [name, value] : tree) {
    std::vector<std::string> parts;
    for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
      end = name.find('/', begin);
      parts.push_back(renamed.at(name.substr(0, begin)).at(name.substr(begin, end - begin)));
    }
    put_new(result, join(parts, "/"), value, origin);
  }
  return result;
}

// Returns the new name of a parameter in the MLP of an old mixer: "Dense_0/kernel" for kernel1,
// "Dense_1/bias" for bias2. "" for other names.
std::string mixer_dense(std::string_view leaf) {
  for (const char* kind : {"kernel", "bias"}) {
    if (leaf == std::string(kind) + "1") return std::string("Dense_0/") + kind;
    if (leaf == std::string(kind) + "2") return std::string("Dense_1/") + kind;
  }
  return "";
}

// Removes leading axes of size 1 until `dimensions` are left.
at::Tensor squeezed(at::Tensor value, int64_t dimensions) {
  while (value.dim() > dimensions && value.size(0) == 1) value = value.squeeze(0);
  return value;
}

// Half precision would round a sum.
at::Tensor at_least_float32(const at::Tensor& value) {
  return at::isReducedFloatingType(value.scalar_type()) ? value.to(at::kFloat) : value;
}

void replace_prefix(std::string& name, std::string_view from, std::string_view to) {
  if (name.starts_with(from)) name = std::string(to) + name.substr(from.size());
}

}  // namespace

NamedTensors repair_vit(const NamedTensors& tree, const std::string& origin) {
  NamedTensors result;
  for (const auto& [old, value] : renumber(tree, origin)) {
    std::string name = old;
    if (name == "Transformer/posembed_input/pos_embedding" || name == "Transformer/pos_embedding") {
      name = kPositions;
    }
    for (const char* part : {"MlpBlock_0/", "MultiHeadDotProductAttention_0/", "LayerNorm_0/"}) {
      replace_prefix(name, part, std::string("MAPHead_0/") + part);
    }
    if (name == "probe") name = "MAPHead_0/probe";
    put_new(result, name, value, origin);
  }
  return result;
}

NamedTensors repair_bit(const NamedTensors& tree) {
  NamedTensors result;
  for (const auto& [name, value] : tree) {
    const bool norm = name.starts_with("gn_") || name.find("/gn") != std::string::npos;
    result.emplace(name, norm ? squeezed(value, 1) : value);
  }
  return result;
}

void split_class_position(NamedTensors& tree, int64_t positions, const std::string& origin,
                          TokenGrid stored) {
  const auto found = tree.find(kPositions);
  if (found == tree.end() || found->second.dim() != 3) return;
  const at::Tensor all = found->second;
  const int64_t count = all.size(1), grid = count - 1;
  const auto cls = tree.find("cls");
  if (grid < 1 || count == stored.size()) return;
  const bool square = square_grid(grid).size() > 0 && (count != positions || cls != tree.end());
  if (grid != stored.size() && grid != positions && !square) return;
  if (cls != tree.end()) {
    const at::Tensor first = all.narrow(1, 0, 1);
    if (cls->second.sizes() != first.sizes()) {
      throw Error(Exit::usage, origin,
                  fmt::format("cls has shape {}, but its position in pos_embedding has shape {}",
                              shape_text(cls->second.sizes()), shape_text(first.sizes())));
    }
    if (count == positions && grid != stored.size()) {
      const int64_t side = square_grid(grid).rows;
      log::warn(
          "{}: pos_embedding has {} positions, as many as the model; as in big_vision they are "
          "taken for the class token's and those of {}x{} patches, and resampled; if they are "
          "those of the model's patches, store pos_embedding as (1, rows, columns, {})",
          origin, count, side, side, all.size(2));
    }
    cls->second = at::add(at_least_float32(cls->second), at_least_float32(first));
  }
  found->second = all.narrow(1, 1, grid);
}

NamedTensors repair_mixer(const NamedTensors& tree, const std::string& origin) {
  const NamedTensors counted = renumber(tree, origin);
  const auto first = counted.lower_bound("Mixer/");
  if (first == counted.end() || !first->first.starts_with("Mixer/")) return counted;
  NamedTensors result;
  for (const auto& [old, value] : counted) {
    std::string name = old;
    at::Tensor repaired = value;
    replace_prefix(name, "Mixer/encoder_norm/", "pre_head_layer_norm/");
    replace_prefix(name, "embedding/", "stem/");
    replace_prefix(name, "Mixer/encoderblock_", "MixerBlock_");
    for (const char* mixing : {"token_mixing", "channel_mixing"}) {
      const std::string phase = std::string("/") + mixing + "_phase_0/";
      const size_t at = name.find(phase);
      if (at == std::string::npos) continue;
      const std::string dense = mixer_dense(std::string_view(name).substr(at + phase.size()));
      if (dense.empty()) continue;
      name = fmt::format("{}/{}/{}", name.substr(0, at), mixing, dense);
      repaired = squeezed(value, dense.ends_with("bias") ? 1 : 2);
    }
    put_new(result, name, repaired, origin);
  }
  return result;
}

}  // namespace bv
