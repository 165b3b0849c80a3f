// Trees of parameters in other programs' names and layouts, made into the reference's, and back.
// The maps are tables in docs/weights.md.
//
// All functions take any tensor a file may hold: what has the wrong number of dimensions is an
// Error(Exit::usage) at `origin` (the file) that names it; names they don't know stay as they are,
// so that whoever loads the tree lists them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lib/ckpt/tensors.h"

namespace bv {

// The shapes a model wants, by the reference's names.
using Shapes = std::map<std::string, std::vector<int64_t>>;

// Whatever `tree` is, as the model with the parameters `wanted` names and stacks it: the steps
// below that apply, in this order. Only pos_embedding may still differ in size.
NamedTensors adapt_layout(NamedTensors tree, const Shapes& wanted, const std::string& origin);

// timm's VisionTransformer ("blocks.0.attn.qkv.weight"). `heads` splits the fused kernels.
bool is_timm(const NamedTensors& tree);
NamedTensors from_timm(const NamedTensors& tree, int64_t heads, const std::string& origin);
// The other way, from parameters of one block each.
NamedTensors to_timm(const NamedTensors& vit);

// timm's MlpMixer ("blocks.0.mlp_tokens.fc1.weight"), an mlp_mixer.
bool is_timm_mixer(const NamedTensors& tree);
NamedTensors from_timm_mixer(const NamedTensors& tree, const std::string& origin);
NamedTensors to_timm_mixer(const NamedTensors& mixer);

// timm's ResNetV2 as its resnetv2_*_bit are ("stages.0.blocks.0.conv1.weight"), a bit_paper.
bool is_timm_bit(const NamedTensors& tree);
NamedTensors from_timm_bit(const NamedTensors& tree, const std::string& origin);
NamedTensors to_timm_bit(const NamedTensors& bit_paper);

// Hugging Face's ViTModel and ViTForImageClassification ("vit.encoder.layer.0...").
bool is_hugging_face(const NamedTensors& tree);
NamedTensors from_hugging_face(const NamedTensors& tree, int64_t heads, const std::string& origin);

// BiT as TensorFlow wrote it ("resnet/block1/unit01/a/..."), reference 10.5.
bool is_bit_tf(const NamedTensors& tree);
NamedTensors from_bit_tf(const NamedTensors& tree, const std::string& origin);

// Files of earlier big_vision versions, reference 10.3 (2a, b, d) and 10.4. Others stay as they
// are.
NamedTensors repair_vit(const NamedTensors& tree, const std::string& origin);
NamedTensors repair_mixer(const NamedTensors& tree, const std::string& origin);
// Reference 10.3 (2c): the first of n * n + 1 positions belongs to the class token: it is added to
// `cls` where there is one and dropped where there is none. `positions`: the model's number, which
// is left alone.
void split_class_position(NamedTensors& tree, int64_t positions, const std::string& origin);

// Transformer/encoderblock_<i>/... to Transformer/encoderblock/... with a leading axis, and back.
NamedTensors stack_blocks(const NamedTensors& tree, const std::string& origin);
NamedTensors unstack_blocks(const NamedTensors& tree, const std::string& origin);

// A position embedding (1, n * n, D) or (1, h, w, D) resampled to `shape`: bilinear with aligned
// corners (reference 10.3), computed in double. scipy, which the reference calls, fills the last
// row and column with zeros for 48 pairs of sizes (28 -> 14, 32 -> 16, ...) by a rounding error;
// here they have their true values. Throws where a side can't be told.
at::Tensor resample_positions(const at::Tensor& old, const std::vector<int64_t>& shape,
                              const std::string& origin);

// "(2, 3)"
std::string format_shape(at::IntArrayRef shape);
// Puts `value` at `name`, which must be free.
void put_new(NamedTensors& tree, const std::string& name, at::Tensor value,
             const std::string& origin);
// Throws unless tensor `name` has `dimensions` dimensions.
void expect_dimensions(const std::string& name, const at::Tensor& value, int64_t dimensions,
                       const std::string& origin);

}  // namespace bv
