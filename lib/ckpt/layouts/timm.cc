// timm: timm/models/vision_transformer.py (VisionTransformer; timm 0.9 to 1.0).
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros_like.h>

#include "lib/ckpt/layouts/transformer_names.h"

namespace bv {

namespace {

#define BV_BLOCK "Transformer/encoderblock_{}/"
#define BV_ATTENTION BV_BLOCK "MultiHeadDotProductAttention_0/"
constexpr NameRow kTimmRows[] = {
    {"cls_token", "cls", nullptr},
    {"pos_embed", "pos_embedding", nullptr},
    {"patch_embed.proj", "embedding", "kernel", Layout::patch},
    {"blocks.{}.norm1", BV_BLOCK "LayerNorm_0", "scale"},
    {"blocks.{}.attn.qkv", BV_ATTENTION "query", "kernel", Layout::split, 0, 3},
    {"blocks.{}.attn.qkv", BV_ATTENTION "key", "kernel", Layout::split, 1, 3},
    {"blocks.{}.attn.qkv", BV_ATTENTION "value", "kernel", Layout::split, 2, 3},
    {"blocks.{}.attn.proj", BV_ATTENTION "out", "kernel", Layout::merge},
    {"blocks.{}.norm2", BV_BLOCK "LayerNorm_1", "scale"},
    {"blocks.{}.mlp.fc1", BV_BLOCK "MlpBlock_0/Dense_0", "kernel", Layout::linear},
    {"blocks.{}.mlp.fc2", BV_BLOCK "MlpBlock_0/Dense_1", "kernel", Layout::linear},
    {"norm", "Transformer/encoder_norm", "scale"},
    {"attn_pool.latent", "MAPHead_0/probe", nullptr},
    {"attn_pool.q", "MAPHead_0/MultiHeadDotProductAttention_0/query", "kernel", Layout::split},
    {"attn_pool.kv", "MAPHead_0/MultiHeadDotProductAttention_0/key", "kernel", Layout::split, 0, 2},
    {"attn_pool.kv", "MAPHead_0/MultiHeadDotProductAttention_0/value", "kernel", Layout::split, 1,
     2},
    {"attn_pool.proj", "MAPHead_0/MultiHeadDotProductAttention_0/out", "kernel", Layout::merge},
    {"attn_pool.norm", "MAPHead_0/LayerNorm_0", "scale"},
    {"attn_pool.mlp.fc1", "MAPHead_0/MlpBlock_0/Dense_0", "kernel", Layout::linear},
    {"attn_pool.mlp.fc2", "MAPHead_0/MlpBlock_0/Dense_1", "kernel", Layout::linear},
    {"pre_logits.fc", "pre_logits", "kernel", Layout::linear},
    {"head", "head", "kernel", Layout::linear},
};
#undef BV_BLOCK
#undef BV_ATTENTION

}  // namespace

bool is_timm(const NamedTensors& tree) { return tree.count("patch_embed.proj.weight") > 0; }

NamedTensors from_timm(const NamedTensors& tree, int64_t heads, const std::string& origin) {
  return from_torch(tree, kTimmRows, heads, origin);
}

NamedTensors to_timm(const NamedTensors& vit) {
  NamedTensors result = to_torch(vit, kTimmRows);
  // In timm the class token has its own position embedding. Ours has none, so it is zero.
  const auto cls = result.find("cls_token"), positions = result.find("pos_embed");
  if (cls != result.end() && positions != result.end()) {
    positions->second = at::cat({at::zeros_like(cls->second), positions->second}, 1).contiguous();
  }
  return result;
}

}  // namespace bv
