#include "lib/model/transformer.h"

#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include <cmath>

#include "lib/model/dropout.h"
#include "lib/model/remat.h"
#include "lib/model/sincos.h"

namespace bv {
namespace {

struct VariantSize {
  const char* name;
  int64_t width, depth, mlp_dim, num_heads;
};
constexpr VariantSize kSizes[] = {
    {"mu", 32, 1, 128, 2},          {"Ti", 192, 12, 768, 3},   {"S", 384, 12, 1536, 6},
    {"M", 512, 12, 2048, 8},        {"B", 768, 12, 3072, 12},  {"L", 1024, 24, 4096, 16},
    {"So400m", 1152, 27, 4304, 16}, {"H", 1280, 32, 5120, 16}, {"g", 1408, 40, 6144, 16},
    {"g-opt", 1536, 40, 6144, 16},  {"G", 1664, 48, 8192, 16}, {"G-opt", 1536, 48, 8192, 16},
    {"e", 1792, 56, 15360, 16},
};

// The config's `variant` alone.
TransformerShape shape_of_variant(const Config& config, int64_t patch) {
  TransformerShape shape;
  shape.patch_height = shape.patch_width = patch;
  std::vector<std::string> known;
  for (const VariantSize& size : kSizes) known.emplace_back(size.name);
  const auto variant = read_variant(config, known, /*needs_patch=*/false);
  if (!variant) return shape;
  for (const VariantSize& size : kSizes) {
    if (variant->size != size.name) continue;
    shape.width = size.width;
    shape.depth = size.depth;
    shape.mlp_dim = size.mlp_dim;
    shape.num_heads = size.num_heads;
  }
  if (variant->patch > 0) shape.patch_height = shape.patch_width = variant->patch;
  return shape;
}

TransformerBlock add_block(Layer& owner, const std::string& name, const TransformerShape& shape,
                           int64_t layers) {
  const int64_t width = shape.width;
  return {LayerNorm::add(owner, name + "/LayerNorm_0", width, layers),
          LayerNorm::add(owner, name + "/LayerNorm_1", width, layers),
          Attention::add(owner, name + "/MultiHeadDotProductAttention_0", width, shape.num_heads,
                         layers),
          Mlp::add(owner, name + "/MlpBlock_0", width, shape.mlp_dim, layers)};
}

// Block `i` on (n, tokens, D).
at::Tensor run_block(const TransformerBlock& block, size_t i, const at::Tensor& input, double rate,
                     Pass& pass) {
  const auto keep = [&](const char* name, const at::Tensor& value) {
    if (pass.features) pass.keep(fmt::format("encoder/block{:02}/{}", i, name).c_str(), value);
  };
  at::Tensor y = block.norm0(input);
  y = block.attention(y, y, pass);
  keep("sa", y);
  at::Tensor x = input + dropout(y, rate, pass);
  keep("+sa", x);
  y = block.mlp(block.norm1(x), rate, pass);
  keep("mlp", y);
  x = x + dropout(y, rate, pass);
  keep("+mlp", x);
  return x;
}

// The same, keeping only its input for backward.
at::Tensor remat_block(const TransformerBlock& block, size_t i, const at::Tensor& input,
                       double rate, Pass& pass) {
  std::vector<at::Tensor> inputs = {input};
  TransformerBlock weights = block;
  weights.each([&](at::Tensor& tensor) { inputs.push_back(tensor); });
  const Part part = [i, rate](const std::vector<at::Tensor>& given, Pass& pass) {
    TransformerBlock again;
    size_t k = 1;
    again.each([&](at::Tensor& tensor) { tensor = given[k++]; });
    return run_block(again, i, given[0], rate, pass);
  };
  return remat(part, inputs, pass);
}

}  // namespace

TransformerShape read_transformer_shape(const Config& config, int64_t patch) {
  TransformerShape shape = shape_of_variant(config, patch);
  const auto positive = [&](const char* key, int64_t& value) {
    value = config.get<int64_t>(key, value);
    if (value < 1) config.fail(key, fmt::format("must be positive, got {}", value));
  };
  positive("width", shape.width);
  positive("depth", shape.depth);
  if (shape.mlp_dim == 0) shape.mlp_dim = 4 * shape.width;
  positive("mlp_dim", shape.mlp_dim);
  positive("num_heads", shape.num_heads);
  if (shape.width % shape.num_heads != 0) {
    config.fail("num_heads",
                fmt::format("{} heads do not divide a width of {}", shape.num_heads, shape.width));
  }
  const auto sides =
      config.get<std::vector<int64_t>>("patch_size", {shape.patch_height, shape.patch_width});
  if (sides.size() != 2 || sides[0] < 1 || sides[1] < 1) {
    config.fail("patch_size", "must be two positive numbers [rows, columns]");
  }
  shape.patch_height = sides[0];
  shape.patch_width = sides[1];
  return shape;
}

std::vector<NamedVariant> transformer_variants() {
  std::vector<NamedVariant> all;
  for (const char* name : {"mu/16", "Ti/16", "S/32", "S/16", "M/16", "B/32", "B/16", "L/16",
                           "So400m/14", "H/14", "g/14", "g-opt/14", "G/14", "G-opt/14", "e/14"}) {
    all.push_back({name, fmt::format("{{variant: {}}}", name)});
  }
  return all;
}

Encoder Encoder::add(Layer& owner, const TransformerShape& shape, EncoderOptions options) {
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
  const bool again = options_.remat && pass.train;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (!options_.scan) pass.enter(static_cast<int>(i), x);
    x = (again ? remat_block : run_block)(blocks[i], i, x, options_.dropout, pass);
    if (!options_.scan) pass.leave(static_cast<int>(i), x);
  }
  if (!options_.scan) pass.keep("encoder/pre_ln", x);
  return norm_(x);
}

std::vector<std::string> Encoder::units() const {
  std::vector<std::string> all;
  for (int64_t i = 0; i < depth_ && !options_.scan; ++i)
    all.push_back(fmt::format("Transformer/encoderblock_{}/", i));
  return all;
}

MapHead MapHead::add(Layer& owner, const TransformerShape& shape) {
  const int64_t width = shape.width;
  return {owner.add_parameter("MAPHead_0/probe", {1, 1, width}, xavier_uniform(1, width)),
          Attention::add(owner, "MAPHead_0/MultiHeadDotProductAttention_0", width, shape.num_heads),
          LayerNorm::add(owner, "MAPHead_0/LayerNorm_0", width),
          Mlp::add(owner, "MAPHead_0/MlpBlock_0", width, shape.mlp_dim)};
}

at::Tensor MapHead::operator()(const at::Tensor& tokens, Pass& pass) const {
  const at::Tensor query = probe.expand({tokens.size(0), 1, tokens.size(2)});
  const at::Tensor x = attention(query, tokens, pass).to(at::kFloat);
  return (x + mlp(norm(x), /*dropout_rate=*/0, pass)).select(1, 0);
}

at::Tensor add_position_embedding(Layer& owner, const Config& config, int64_t h, int64_t w,
                                  int64_t width) {
  if (config.word("posemb", "learn", {"learn", "sincos2d"}) == "learn") {
    return owner.add_parameter("pos_embedding", {1, h * w, width},
                               normal(1.0 / std::sqrt(static_cast<double>(width))));
  }
  if (width % 4 != 0 || width < 8) {
    config.fail("posemb",
                fmt::format("sincos2d needs a width that is a multiple of 4 and at least 8, got {}",
                            width));
  }
  return sincos2d(h, w, width);
}

}  // namespace bv
