#include "lib/ckpt/layouts/layouts.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <utility>

#include "lib/report/log.h"
#include "lib/util/error.h"
#include "lib/util/limits.h"
#include "lib/util/text.h"

namespace bv {

namespace {

constexpr const char* kAttention = "MultiHeadDotProductAttention_0/query/bias";

bool has_prefix(const Shapes& shapes, const std::string& prefix) {
  const auto found = shapes.lower_bound(prefix);
  return found != shapes.end() && found->first.starts_with(prefix);
}

// A weights file stores neither the GELU variant nor eps, and other programs have other defaults.
void warn_of_formulas(const char* program, const char* theirs) {
  log::warn("weights of {}: bvtrain uses the tanh form of GELU and eps 1e-6 in norms; {}", program,
            theirs);
}

NamedTensors adapt_bit_paper(const NamedTensors& tree, const std::string& origin,
                             bool own_formulas) {
  if (is_bit_tf(tree)) return from_bit_tf(tree, origin);
  if (!is_timm_bit(tree)) return tree;
  if (!own_formulas) {
    log::warn(
        "weights of timm: bvtrain's root pools without padding and standardizes weights with eps "
        "1e-10; timm's resnetv2_*_bit pad with zeros and use eps 1e-8");
  }
  return from_timm_bit(tree, origin);
}

NamedTensors adapt_mixer(const NamedTensors& tree, const std::string& origin, bool own_formulas) {
  if (!is_timm_mixer(tree)) return repair_mixer(tree, origin);
  if (!own_formulas)
    warn_of_formulas(
        "timm", "timm uses the exact GELU by default (bvtrain's form is its act_layer GELUTanh)");
  return from_timm_mixer(tree, origin);
}

}  // namespace

AttentionHeads heads_of(const Shapes& wanted) {
  for (const auto& [name, shape] : wanted) {
    if (name.ends_with(kAttention) && shape.size() >= 2)
      return {shape[shape.size() - 2], shape.back()};
  }
  return {};
}

void put_new(NamedTensors& tree, const std::string& name, at::Tensor value,
             const std::string& origin) {
  if (!tree.emplace(name, std::move(value)).second) {
    throw Error(Exit::usage, origin,
                fmt::format("two arrays of the file map to the same name '{}'", name));
  }
}

void expect_dimensions(const std::string& name, const at::Tensor& value, int64_t dimensions,
                       const std::string& origin) {
  if (value.dim() == dimensions) return;
  throw Error(Exit::usage, origin,
              fmt::format("{} has shape {}, expected {}", name, shape_text(value.sizes()),
                          counted(dimensions, "dimension")));
}

NamedTensors adapt_layout(NamedTensors tree, const Shapes& wanted, const std::string& origin,
                          TokenGrid stored, bool own_formulas) {
  for (const auto& [name, value] : tree) {
    if (std::count(name.begin(), name.end(), '/') >= limits::kTensorNameLevels) {
      throw Error(Exit::usage, origin,
                  fmt::format("a name has more than {} levels: {}...", limits::kTensorNameLevels,
                              name.substr(0, 40)));
    }
    if (name.size() > limits::kTensorNameBytes) {
      throw Error(Exit::usage, origin,
                  fmt::format("a name has {} characters: {}...", name.size(), name.substr(0, 40)));
    }
  }
  const int64_t heads = heads_of(wanted).count;
  if (heads > 0 && is_timm(tree)) {
    if (!own_formulas)
      warn_of_formulas(
          "timm",
          "timm uses the exact GELU by default (bvtrain's form is its act_layer gelu_tanh)");
    tree = from_timm(tree, heads, origin);
  } else if (heads > 0 && is_hugging_face(tree)) {
    warn_of_formulas("Hugging Face", "its ViT uses the exact GELU and eps 1e-12 by default");
    tree = from_hugging_face(tree, heads, origin);
  }
  if (has_prefix(wanted, "norm-pre-head/")) return adapt_bit_paper(tree, origin, own_formulas);
  if (has_prefix(wanted, "pre_head_layer_norm/")) return adapt_mixer(tree, origin, own_formulas);
  if (has_prefix(wanted, "gn_root/")) return repair_bit(tree);
  if (!has_prefix(wanted, "Transformer/encoder_norm/")) return tree;

  tree = repair_vit(tree, origin);
  const auto positions = wanted.find("pos_embedding");
  const bool learned = positions != wanted.end() && positions->second.size() == 3;
  split_class_position(tree, learned ? positions->second[1] : 0, origin, stored);
  return has_prefix(wanted, "Transformer/encoderblock/") ? stack_blocks(tree, origin)
                                                         : unstack_blocks(tree, origin);
}

}  // namespace bv
