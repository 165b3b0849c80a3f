#include "lib/model/transformer/map_head.h"

#include <ATen/TensorOperators.h>

#include "lib/model/layers/compute.h"

namespace bv {

MapHead MapHead::add(Module& owner, const TransformerShape& shape) {
  const int64_t width = shape.width;
  return {owner.add_parameter("MAPHead_0/probe", {1, 1, width}, xavier_uniform(1, width)),
          Attention::add(owner, "MAPHead_0/MultiHeadDotProductAttention_0", width, shape.num_heads),
          LayerNorm::add(owner, "MAPHead_0/LayerNorm_0", width),
          Mlp::add(owner, "MAPHead_0/MlpBlock_0", width, shape.mlp_dim)};
}

at::Tensor MapHead::operator()(const at::Tensor& tokens, Pass& pass) const {
  const at::Tensor query = probe.expand({tokens.size(0), 1, tokens.size(2)});
  const at::Tensor x = attention(query, tokens, pass).to(at::kFloat);
  return (x + mlp(norm(x, compute_type(pass)), /*dropout_rate=*/0, pass)).select(1, 0);
}

}  // namespace bv
