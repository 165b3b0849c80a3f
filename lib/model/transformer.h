// The transformer encoder of vit and its relatives (reference section 9.1).
#pragma once

#include <string>
#include <vector>

#include "lib/model/layers.h"
#include "lib/model/variants.h"

namespace bv {

// Sizes of an encoder and of the patches it reads.
struct TransformerShape {
  int64_t width = 768, depth = 12, mlp_dim = 0, num_heads = 12;
  int64_t patch_height = 16, patch_width = 16;
};

// Reads `variant`, and beside it width, depth, mlp_dim (4 * width), num_heads and patch_size, which
// win; `patch` is the side of the patches where neither says.
TransformerShape read_transformer_shape(const Config& config, int64_t patch);
// The sizes of `variant` with the patches they were published with.
std::vector<NamedVariant> transformer_variants();

struct TransformerBlock {
  LayerNorm norm0, norm1;
  Attention attention;
  Mlp mlp;
  template <class F>
  void each(const F& f) {
    norm0.each(f);
    norm1.each(f);
    attention.each(f);
    mlp.each(f);
  }
};

struct EncoderOptions {
  double dropout = 0;  // of what attention and MLP add, and within the MLP
  bool scan = false;   // stacked parameters Transformer/encoderblock/... with a leading axis
  bool remat = false;  // a block's activations are computed again in backward
};

// Transformer/encoderblock_<i>/... and Transformer/encoder_norm. Keeps the features
// encoder/block<NN>/{sa, +sa, mlp, +mlp} and, without scan, encoder/pre_ln.
class Encoder {
 public:
  static Encoder add(Layer& owner, const TransformerShape& shape, EncoderOptions options);
  // (n, tokens, D) to the same; in the type of x but for the last norm's float32. Block i is unit i
  // of the model's.
  at::Tensor operator()(at::Tensor x, Pass& pass) const;
  // Of Model::units(). None with scan: the stacked parameters are there as a whole.
  std::vector<std::string> units() const;

 private:
  EncoderOptions options_;
  int64_t depth_ = 0;
  std::vector<TransformerBlock> blocks_;  // with scan a single one, stacked
  LayerNorm norm_;
};

// Attention pooling with one learned query: MAPHead_0/...
struct MapHead {
  at::Tensor probe;  // (1, 1, D)
  Attention attention;
  LayerNorm norm;
  Mlp mlp;

  static MapHead add(Layer& owner, const TransformerShape& shape);
  at::Tensor operator()(const at::Tensor& tokens, Pass& pass) const;  // (n, tokens, D) to (n, D)
};

// The position embedding: a parameter (1, h * w, D) "pos_embedding" with `posemb: learn`, a table
// of that shape with `sincos2d`.
at::Tensor add_position_embedding(Layer& owner, const Config& config, int64_t h, int64_t w,
                                  int64_t width);

}  // namespace bv
