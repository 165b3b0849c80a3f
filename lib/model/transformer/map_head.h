#pragma once

#include <ATen/core/Tensor.h>

#include "lib/model/layers/attention.h"
#include "lib/model/layers/layer_norm.h"
#include "lib/model/layers/mlp.h"
#include "lib/model/module.h"
#include "lib/model/pass.h"
#include "lib/model/transformer/transformer_shape.h"

namespace bv {

// Multi-head attention pooling with one learned query: MAPHead in big_vision's models/vit.py.
struct MapHead {
  at::Tensor probe;  // (1, 1, D)
  Attention attention;
  LayerNorm norm;
  Mlp mlp;

  // Registers MAPHead_0/...
  static MapHead add(Module& owner, const TransformerShape& shape);
  // Pools tokens (n, tokens, D) into (n, D) float32.
  at::Tensor operator()(const at::Tensor& tokens, Pass& pass) const;
};

}  // namespace bv
