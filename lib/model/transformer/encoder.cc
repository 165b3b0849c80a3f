#include "lib/model/transformer/encoder.h"

#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include "lib/model/dropout.h"
#include "lib/model/layers/compute.h"
#include "lib/model/layers/residual.h"
#include "lib/model/layers/stacked.h"
#include "lib/model/remat.h"

namespace bv {
namespace {

TransformerBlock add_block(Module& owner, const std::string& name, const TransformerShape& shape,
                           int64_t layers) {
  const int64_t width = shape.width;
  return {LayerNorm::add(owner, name + "/LayerNorm_0", width, layers),
          LayerNorm::add(owner, name + "/LayerNorm_1", width, layers),
          Attention::add(owner, name + "/MultiHeadDotProductAttention_0", width, shape.num_heads,
                         layers),
          Mlp::add(owner, name + "/MlpBlock_0", width, shape.mlp_dim, layers)};
}

// Applies block `i` to the stream, (n, tokens, D).
void run_block(const TransformerBlock& block, size_t i, Residual& stream, double rate, Pass& pass) {
  const auto keep = [&](const char* name, const auto& value) {
    if (pass.features) pass.keep(fmt::format("encoder/block{:02}/{}", i, name).c_str(), value());
  };
  at::Tensor y = stream.normalised(block.norm0, compute_type(pass));
  y = block.attention(y, y, pass);
  keep("sa", [&] { return y; });
  stream.add(dropout(y, rate, pass));
  keep("+sa", [&] { return stream.sum(); });
  y = block.mlp(stream.normalised(block.norm1, compute_type(pass)), rate, pass);
  keep("mlp", [&] { return y; });
  stream.add(dropout(y, rate, pass));
  keep("+mlp", [&] { return stream.sum(); });
}

// The same, but only the input is kept for backward.
at::Tensor remat_block(const TransformerBlock& block, size_t i, const at::Tensor& input,
                       double rate, Pass& pass) {
  std::vector<at::Tensor> inputs = {input};
  TransformerBlock weights = block;
  weights.each([&](at::Tensor& tensor) { inputs.push_back(tensor); });
  const RematFunction block_function = [i, rate](const std::vector<at::Tensor>& given, Pass& pass) {
    TransformerBlock again;
    size_t k = 1;
    again.each([&](at::Tensor& tensor) { tensor = given[k++]; });
    Residual stream(given[0]);
    run_block(again, i, stream, rate, pass);
    return stream.sum();
  };
  return remat(block_function, inputs, pass);
}

}  // namespace

Encoder Encoder::add(Module& owner, const TransformerShape& shape, EncoderOptions options) {
  Encoder encoder;
  encoder.options_ = options;
  encoder.depth_ = shape.depth;
  if (options.scan) {
    encoder.blocks_.push_back(
        add_block(owner, "Transformer/encoderblock", shape, /*layers=*/shape.depth));
  } else {
    for (int64_t i = 0; i < shape.depth; ++i) {
      encoder.blocks_.push_back(
          add_block(owner, fmt::format("Transformer/encoderblock_{}", i), shape, /*layers=*/0));
    }
  }
  encoder.norm_ = LayerNorm::add(owner, "Transformer/encoder_norm", shape.width);
  return encoder;
}

at::Tensor Encoder::operator()(at::Tensor x, Pass& pass) const {
  const std::vector<TransformerBlock> blocks =
      options_.scan ? unstack(blocks_[0], depth_) : blocks_;
  const bool again = options_.remat && pass.train, hooked = pass.hooks && !options_.scan;
  Residual stream(std::move(x));
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (hooked) pass.enter(static_cast<int>(i), stream.sum());
    if (again)
      stream = Residual(remat_block(blocks[i], i, stream.sum(), options_.dropout, pass));
    else
      run_block(blocks[i], i, stream, options_.dropout, pass);
    if (hooked) pass.leave(static_cast<int>(i), stream.sum());
  }
  if (!options_.scan && pass.features) pass.keep("encoder/pre_ln", stream.sum());
  return stream.normalised(norm_);
}

std::vector<std::string> Encoder::units() const {
  std::vector<std::string> all;
  for (int64_t i = 0; i < depth_ && !options_.scan; ++i)
    all.push_back(fmt::format("Transformer/encoderblock_{}/", i));
  return all;
}

}  // namespace bv
