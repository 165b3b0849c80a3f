// Hugging Face: transformers/models/vit/modeling_vit.py (ViTModel, ViTForImageClassification).
// Their pooler is our pre_logits: tanh of a dense layer.
#include <ATen/core/Tensor.h>

#include "lib/ckpt/layouts/transformer_names.h"

namespace bv {

namespace {

constexpr std::string_view kHuggingFacePrefix = "vit.";
constexpr const char* kPatch = "embeddings.patch_embeddings.projection.weight";

#define BV_BLOCK "Transformer/encoderblock_{}/"
#define BV_ATTENTION BV_BLOCK "MultiHeadDotProductAttention_0/"
#define BV_THEIRS "encoder.layer.{}.attention.attention."
constexpr NameRow kHuggingFaceRows[] = {
    {"embeddings.cls_token", "cls", nullptr},
    {"embeddings.position_embeddings", "pos_embedding", nullptr},
    {"embeddings.patch_embeddings.projection", "embedding", "kernel", Layout::patch},
    {"encoder.layer.{}.layernorm_before", BV_BLOCK "LayerNorm_0", "scale"},
    {BV_THEIRS "query", BV_ATTENTION "query", "kernel", Layout::split},
    {BV_THEIRS "key", BV_ATTENTION "key", "kernel", Layout::split},
    {BV_THEIRS "value", BV_ATTENTION "value", "kernel", Layout::split},
    {"encoder.layer.{}.attention.output.dense", BV_ATTENTION "out", "kernel", Layout::merge},
    {"encoder.layer.{}.layernorm_after", BV_BLOCK "LayerNorm_1", "scale"},
    {"encoder.layer.{}.intermediate.dense", BV_BLOCK "MlpBlock_0/Dense_0", "kernel",
     Layout::linear},
    {"encoder.layer.{}.output.dense", BV_BLOCK "MlpBlock_0/Dense_1", "kernel", Layout::linear},
    // The names of transformers 5.
    {"layers.{}.layernorm_before", BV_BLOCK "LayerNorm_0", "scale"},
    {"layers.{}.attention.q_proj", BV_ATTENTION "query", "kernel", Layout::split},
    {"layers.{}.attention.k_proj", BV_ATTENTION "key", "kernel", Layout::split},
    {"layers.{}.attention.v_proj", BV_ATTENTION "value", "kernel", Layout::split},
    {"layers.{}.attention.o_proj", BV_ATTENTION "out", "kernel", Layout::merge},
    {"layers.{}.layernorm_after", BV_BLOCK "LayerNorm_1", "scale"},
    {"layers.{}.mlp.fc1", BV_BLOCK "MlpBlock_0/Dense_0", "kernel", Layout::linear},
    {"layers.{}.mlp.fc2", BV_BLOCK "MlpBlock_0/Dense_1", "kernel", Layout::linear},
    {"layernorm", "Transformer/encoder_norm", "scale"},
    {"pooler.dense", "pre_logits", "kernel", Layout::linear},
    {"classifier", "head", "kernel", Layout::linear},
};
#undef BV_BLOCK
#undef BV_ATTENTION
#undef BV_THEIRS

}  // namespace

bool is_hugging_face(const NamedTensors& tree) {
  return tree.count(kPatch) > 0 || tree.count(std::string(kHuggingFacePrefix) + kPatch) > 0;
}

NamedTensors from_hugging_face(const NamedTensors& tree, int64_t heads, const std::string& origin) {
  NamedTensors plain;  // by ViTModel's names; ViTForImageClassification prefixes them with "vit."
  for (const auto& [name, value] : tree) {
    put_new(plain,
            name.starts_with(kHuggingFacePrefix) ? name.substr(kHuggingFacePrefix.size()) : name,
            value, origin);
  }
  return from_torch(plain, kHuggingFaceRows, heads, origin);
}

}  // namespace bv
