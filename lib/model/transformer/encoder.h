// The transformer encoder of vit and flexi_vit: Encoder and Encoder1DBlock in big_vision's
// models/vit.py.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lib/model/layers/attention.h"
#include "lib/model/layers/layer_norm.h"
#include "lib/model/layers/mlp.h"
#include "lib/model/module.h"
#include "lib/model/pass.h"
#include "lib/model/transformer/transformer_shape.h"

namespace bv {

// x + attention(norm0(x)), then x + mlp(norm1(x)).
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
  double dropout = 0;  // rate, on the outputs of attention and MLP and inside the MLP
  bool scan = false;   // stack the blocks' parameters, as Transformer/encoderblock/...
  bool remat = false;  // do not keep a block's activations; recompute them in backward
};

// Parameters: Transformer/encoderblock_<i>/... and Transformer/encoder_norm. Activations:
// encoder/block<NN>/{sa, +sa, mlp, +mlp} and, without scan, encoder/pre_ln.
class Encoder {
 public:
  static Encoder add(Module& owner, const TransformerShape& shape, EncoderOptions options);
  // Maps tokens (n, tokens, D) to (n, tokens, D) float32. The residual stream has the type of x.
  // Block i is unit i of the model.
  at::Tensor operator()(at::Tensor x, Pass& pass) const;
  // Returns Model::units() of the encoder. With scan there are none, as the stacked parameters can
  // only be gathered as a whole.
  std::vector<std::string> units() const;

 private:
  EncoderOptions options_;
  int64_t depth_ = 0;
  std::vector<TransformerBlock> blocks_;  // with scan only one, stacked
  LayerNorm norm_;
};

}  // namespace bv
