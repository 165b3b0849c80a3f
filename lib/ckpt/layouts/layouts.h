// Conversion of weights between the names and layouts of other programs and those of big_vision,
// which are ours. docs/weights.md shows the maps as tables.
//
// All functions accept any tree of tensors that a file may hold. A tensor with the wrong number of
// dimensions is an Error(Exit::usage) at `origin`, the name of the file. Names that a function does
// not know stay as they are: the code that loads the tree into a model reports them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lib/ckpt/layouts/token_grid.h"
#include "lib/ckpt/tensors.h"

namespace bv {

// The shapes of the parameters of a model, by their names in big_vision.
using Shapes = std::map<std::string, std::vector<int64_t>>;

struct AttentionHeads {
  int64_t count = 0, features = 0;  // features: of each head
};
// Returns the attention heads of a vit, whose query biases are (..., H, D/H); {} if the model has
// no attention.
AttentionHeads heads_of(const Shapes& wanted);

// Converts `tree`, from any program, to the names and layouts of a model with the parameters
// `wanted`: recognizes the program and applies the functions below that fit. Afterwards only
// pos_embedding may have another size than in the model. `stored` is the grid of the tree's
// position embedding, if it is known. Warns of formulas that other programs have, unless the
// weights were written for ours: `own_formulas`.
NamedTensors adapt_layout(NamedTensors tree, const Shapes& wanted, const std::string& origin,
                          TokenGrid stored = {}, bool own_formulas = false);

// ---- timm. The to_ functions take trees with one subtree per block (see unstack_blocks()).

// VisionTransformer ("blocks.0.attn.qkv.weight"). `heads` is the number of attention heads of the
// model, needed to split the fused kernels.
bool is_timm(const NamedTensors& tree);
NamedTensors from_timm(const NamedTensors& tree, int64_t heads, const std::string& origin);
NamedTensors to_timm(const NamedTensors& vit);

// MlpMixer ("blocks.0.mlp_tokens.fc1.weight"): our mlp_mixer.
bool is_timm_mixer(const NamedTensors& tree);
NamedTensors from_timm_mixer(const NamedTensors& tree, const std::string& origin);
NamedTensors to_timm_mixer(const NamedTensors& mixer);

// ResNetV2 in the form of resnetv2_*_bit ("stages.0.blocks.0.conv1.weight"): our bit_paper.
bool is_timm_bit(const NamedTensors& tree);
NamedTensors from_timm_bit(const NamedTensors& tree, const std::string& origin);
NamedTensors to_timm_bit(const NamedTensors& bit_paper);

// ---- Hugging Face transformers: ViTModel and ViTForImageClassification
// ("vit.encoder.layer.0...").

bool is_hugging_face(const NamedTensors& tree);
NamedTensors from_hugging_face(const NamedTensors& tree, int64_t heads, const std::string& origin);

// ---- BiT as TensorFlow wrote it ("resnet/block1/unit01/a/..."), as in big_vision's
// models/bit_paper.py, `load`.

bool is_bit_tf(const NamedTensors& tree);
NamedTensors from_bit_tf(const NamedTensors& tree, const std::string& origin);

// ---- Files of earlier versions of big_vision. Other trees are returned unchanged.

// As in models/vit.py, `fix_old_checkpoints`: numbers of layers, names of the position embedding
// and of the attention pooling.
NamedTensors repair_vit(const NamedTensors& tree, const std::string& origin);
// As in models/bit.py, `fix_old_checkpoints`: group norms of shape (1, 1, 1, C).
NamedTensors repair_bit(const NamedTensors& tree);
// As in models/mlp_mixer.py, `load`.
NamedTensors repair_mixer(const NamedTensors& tree, const std::string& origin);
// Old files have a position embedding of n * n + 1 positions, of which the first belongs to the
// class token. Removes it from pos_embedding, and adds it to `cls` if the tree has one
// (models/vit.py, `fix_old_checkpoints`). If `stored`, the grid of the file, is given and the file
// has one position more than the grid has tokens, the first position is that of the class token. If
// `stored` is not given, a tree without `cls` keeps n * n + 1 positions if the model has that
// number of `positions`.
void split_class_position(NamedTensors& tree, int64_t positions, const std::string& origin,
                          TokenGrid stored = {});

// ---- Encoder blocks. With `scan: true`, big_vision stacks the parameters of all blocks along a
// new leading axis, as Transformer/encoderblock/... instead of Transformer/encoderblock_<i>/...

NamedTensors stack_blocks(const NamedTensors& tree, const std::string& origin);
NamedTensors unstack_blocks(const NamedTensors& tree, const std::string& origin);

// Returns n x n for n * n positions, and {}, 0 x 0, for other numbers.
TokenGrid square_grid(int64_t positions);
// Returns the grid of a position embedding of this shape. (1, h, w, D) states its grid. (1, N, D)
// has the grid `known` if that has N tokens; otherwise it is a square. Returns {} for other shapes,
// and if N is no square.
TokenGrid position_grid(at::IntArrayRef shape, TokenGrid known);
// Resamples a position embedding (1, N, D) or (1, h, w, D) to `shape`, bilinearly with aligned
// corners, in double (models/vit.py, `resample_posemb`). `from` and `to` are the grids of the old
// and the new one where they are known; see position_grid(). big_vision calls scipy.ndimage.zoom,
// which by a rounding error fills the last row and column with zeros for 48 pairs of sizes
// (28 -> 14, 32 -> 16, ...); here they have their true values. Throws Error(Exit::usage) if a grid
// is not known and not a square.
at::Tensor resample_positions(const at::Tensor& old, const std::vector<int64_t>& shape,
                              const std::string& origin, TokenGrid from = {}, TokenGrid to = {});

// ---- Helpers

// Adds `value` as `name`. Throws Error(Exit::usage) if the tree has that name already.
void put_new(NamedTensors& tree, const std::string& name, at::Tensor value,
             const std::string& origin);
// Throws Error(Exit::usage) unless the tensor `name` has that many dimensions.
void expect_dimensions(const std::string& name, const at::Tensor& value, int64_t dimensions,
                       const std::string& origin);

}  // namespace bv
