// vit: the Vision Transformer of big_vision's models/vit.py (reference section 9.1).
//
//   variant       none        mu Ti S M B L So400m H g g-opt G G-opt e, then /P for the patch size
//                             ("S/16"); keys given beside it win
//   patch_size    [16, 16]    rows, columns; the image's remainder is cut off
//   width         768         features D of a token
//   depth         12          encoder blocks
//   mlp_dim       4 * width   hidden features of a block's MLP
//   num_heads     12
//   posemb        learn       learn | sincos2d
//   rep_size      false       true (= width) or a size: tanh(Dense) before the head
//   dropout       0           after the position embedding, the attention, in and after the MLP
//   pool_type     gap         gap | map | tok | 0 | none
//   head_zeroinit true        else the head's kernel starts LeCun normal
//   scan          false       stacked parameters Transformer/encoderblock/... with a leading axis
//   remat_policy  nothing_saveable | none   accepted; activations are always kept, values are the
//   same dtype_mm      none        float32 | bfloat16: type of the encoder's matmuls and, with
//   bfloat16,
//                             of the residual stream; wins over `precision`
//
// Features: stem, with_posemb, encoder/block<NN>/{sa, +sa, mlp, +mlp}, encoder/pre_ln, encoded,
// head_input, pre_logits, pre_logits_2d, logits, logits_2d.
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tanh.h>
#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "lib/model/dropout.h"
#include "lib/model/layers.h"
#include "lib/model/model.h"
#include "lib/util/text.h"

namespace bv {
namespace {

struct Variant {
  const char* name;
  int64_t width, depth, mlp_dim, num_heads;
};
constexpr Variant kVariants[] = {
    {"mu", 32, 1, 128, 2},          {"Ti", 192, 12, 768, 3},   {"S", 384, 12, 1536, 6},
    {"M", 512, 12, 2048, 8},        {"B", 768, 12, 3072, 12},  {"L", 1024, 24, 4096, 16},
    {"So400m", 1152, 27, 4304, 16}, {"H", 1280, 32, 5120, 16}, {"g", 1408, 40, 6144, 16},
    {"g-opt", 1536, 40, 6144, 16},  {"G", 1664, 48, 8192, 16}, {"G-opt", 1536, 48, 8192, 16},
    {"e", 1792, 56, 15360, 16},
};

struct Shape {
  int64_t width = 768, depth = 12, mlp_dim = 0, num_heads = 12;
  int64_t patch_height = 16, patch_width = 16;
};

int64_t parse_positive(std::string_view text) {  // 0 where it is none
  int64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && stop == text.data() + text.size() && value > 0 ? value : 0;
}

Shape shape_of_variant(const Config& config) {
  Shape shape;
  const std::string variant = config.get<std::string>("variant", "");
  if (variant.empty()) return shape;
  const size_t slash = variant.find('/');
  const std::string name = variant.substr(0, slash);
  const Variant* found = nullptr;
  std::vector<std::string> known;
  for (const Variant& candidate : kVariants) {
    if (name == candidate.name) found = &candidate;
    known.emplace_back(candidate.name);
  }
  if (!found) config.fail("variant", unknown_name_message("variant", name, known));
  shape.width = found->width;
  shape.depth = found->depth;
  shape.mlp_dim = found->mlp_dim;
  shape.num_heads = found->num_heads;
  if (slash != std::string::npos) {
    const int64_t patch = parse_positive(std::string_view(variant).substr(slash + 1));
    if (patch == 0) {
      config.fail("variant", fmt::format("'{}': a patch size must follow the '/'", variant));
    }
    shape.patch_height = shape.patch_width = patch;
  }
  return shape;
}

Shape read_shape(const Config& config) {
  Shape shape = shape_of_variant(config);
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
  const auto patch =
      config.get<std::vector<int64_t>>("patch_size", {shape.patch_height, shape.patch_width});
  if (patch.size() != 2 || patch[0] < 1 || patch[1] < 1) {
    config.fail("patch_size", "must be two positive numbers [rows, columns]");
  }
  shape.patch_height = patch[0];
  shape.patch_width = patch[1];
  return shape;
}

// The size of the layer before the head, 0: no such layer. True is the token's width.
int64_t read_rep_size(const Config& config, int64_t width) {
  const std::string text = config.get<std::string>("rep_size", "false");
  if (text == "false" || text == "0") return 0;
  const int64_t size = text == "true" ? width : parse_positive(text);
  if (size == 0) {
    config.fail("rep_size", fmt::format("expected true, false or a size, got '{}'", text));
  }
  return size;
}

// (1, h * w, features): sines and cosines of the column, then of the row.
at::Tensor sincos2d(int64_t h, int64_t w, int64_t features) {
  const at::Tensor table = at::empty({1, h * w, features}, at::kFloat);
  const int64_t q = features / 4;
  float* out = table.data_ptr<float>();
  for (int64_t token = 0; token < h * w; ++token, out += features) {
    const auto y = static_cast<double>(token / w), x = static_cast<double>(token % w);
    for (int64_t i = 0; i < q; ++i) {
      const double omega = std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(q - 1));
      out[i] = static_cast<float>(std::sin(x * omega));
      out[q + i] = static_cast<float>(std::cos(x * omega));
      out[2 * q + i] = static_cast<float>(std::sin(y * omega));
      out[3 * q + i] = static_cast<float>(std::cos(y * omega));
    }
  }
  return table;
}

struct Block {
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

class Vit : public Model {
 public:
  Vit(const Config& config, const ModelEnv& env);
  at::Tensor forward(const at::Tensor& image, Pass& pass) override;

 private:
  Block add_block(const std::string& name, int64_t layers);
  at::Tensor embed(const at::Tensor& image, Pass& pass) const;   // (n, h, w, D)
  at::Tensor encode(at::Tensor x, Pass& pass) const;             // (n, tokens, D) to the same
  at::Tensor pool(const at::Tensor& encoded, Pass& pass) const;  // (n, D)
  at::Tensor classify(const at::Tensor& x, const char* suffix, Pass& pass) const;

  const Shape shape_;
  const double dropout_;
  const std::string pool_type_;
  const bool scan_;
  std::optional<Precision> dtype_mm_;
  int64_t grid_height_ = 0, grid_width_ = 0;

  Dense embedding_;            // kernel (P, P, channels, D)
  at::Tensor pos_embedding_;   // (1, N, D): a parameter, or the sincos2d table
  at::Tensor cls_;             // (1, 1, D)
  std::vector<Block> blocks_;  // with scan a single one, stacked
  LayerNorm encoder_norm_;
  at::Tensor probe_;  // (1, 1, D), of the MAP head
  Attention map_attention_;
  LayerNorm map_norm_;
  Mlp map_mlp_;
  Dense pre_logits_, head_;
};

Block Vit::add_block(const std::string& name, int64_t layers) {
  const int64_t width = shape_.width;
  return {LayerNorm::add(*this, name + "/LayerNorm_0", width, layers),
          LayerNorm::add(*this, name + "/LayerNorm_1", width, layers),
          Attention::add(*this, name + "/MultiHeadDotProductAttention_0", width, shape_.num_heads,
                         layers),
          Mlp::add(*this, name + "/MlpBlock_0", width, shape_.mlp_dim, layers)};
}

Vit::Vit(const Config& config, const ModelEnv& env)
    : shape_(read_shape(config)),
      dropout_(config.get<double>("dropout", 0.0)),
      pool_type_(config.word("pool_type", "gap", {"gap", "map", "tok", "0", "none"})),
      scan_(config.get<bool>("scan", false)) {
  config.word("remat_policy", "nothing_saveable", {"nothing_saveable", "none"});
  const std::string dtype_mm =
      config.has("dtype_mm") ? config.word("dtype_mm", "", {"float32", "bfloat16"}) : "";
  if (dtype_mm == "float32") dtype_mm_ = Precision::float32;
  if (dtype_mm == "bfloat16") dtype_mm_ = Precision::bf16;
  if (!(dropout_ >= 0 && dropout_ < 1)) config.fail("dropout", "must be in [0, 1)");
  const int64_t width = shape_.width;
  grid_height_ = env.height / shape_.patch_height;
  grid_width_ = env.width / shape_.patch_width;
  if (grid_height_ < 1 || grid_width_ < 1) {
    config.fail(config.has("patch_size") ? "patch_size" : "variant",
                fmt::format("patches of {}x{} are larger than the images of {}x{}",
                            shape_.patch_height, shape_.patch_width, env.height, env.width));
  }

  const int64_t pixels = shape_.patch_height * shape_.patch_width * env.channels;
  embedding_ = {add_parameter("embedding/kernel",
                              {shape_.patch_height, shape_.patch_width, env.channels, width},
                              lecun_normal(pixels), {3, 0, 1, 2}),
                add_parameter("embedding/bias", {width}, zeros())};
  const int64_t tokens = grid_height_ * grid_width_;
  if (config.word("posemb", "learn", {"learn", "sincos2d"}) == "learn") {
    pos_embedding_ = add_parameter("pos_embedding", {1, tokens, width},
                                   normal(1.0 / std::sqrt(static_cast<double>(width))));
  } else {
    if (width % 4 != 0 || width < 8) {
      config.fail("posemb", fmt::format("sincos2d needs a width that is a multiple of 4 and at "
                                        "least 8, got {}",
                                        width));
    }
    pos_embedding_ = sincos2d(grid_height_, grid_width_, width);
  }
  if (pool_type_ == "tok") cls_ = add_parameter("cls", {1, 1, width}, zeros());
  if (scan_) {
    blocks_.push_back(add_block("Transformer/encoderblock", shape_.depth));
  } else {
    for (int64_t i = 0; i < shape_.depth; ++i) {
      blocks_.push_back(add_block(fmt::format("Transformer/encoderblock_{}", i), 0));
    }
  }
  encoder_norm_ = LayerNorm::add(*this, "Transformer/encoder_norm", width);
  if (pool_type_ == "map") {
    probe_ = add_parameter("MAPHead_0/probe", {1, 1, width}, xavier_uniform(1, width));
    map_attention_ =
        Attention::add(*this, "MAPHead_0/MultiHeadDotProductAttention_0", width, shape_.num_heads);
    map_norm_ = LayerNorm::add(*this, "MAPHead_0/LayerNorm_0", width);
    map_mlp_ = Mlp::add(*this, "MAPHead_0/MlpBlock_0", width, shape_.mlp_dim);
  }
  const int64_t rep_size = read_rep_size(config, width);
  if (rep_size > 0) {
    pre_logits_ = Dense::add(*this, "pre_logits", width, rep_size, lecun_normal(width));
  }
  const int64_t head_in = rep_size > 0 ? rep_size : width;
  const bool zero = config.get<bool>("head_zeroinit", true);
  if (env.num_classes > 0) {
    head_ =
        Dense::add(*this, "head", head_in, env.num_classes, zero ? zeros() : lecun_normal(head_in));
  }
}

at::Tensor Vit::embed(const at::Tensor& image, Pass& pass) const {
  // A convolution whose stride is its size is a matmul of the patches.
  const int64_t ph = shape_.patch_height, pw = shape_.patch_width;
  const at::Tensor patches = to_compute(image, pass)
                                 .narrow(1, 0, grid_height_ * ph)
                                 .narrow(2, 0, grid_width_ * pw)
                                 .unflatten(2, {grid_width_, pw})
                                 .unflatten(1, {grid_height_, ph})
                                 .transpose(2, 3)
                                 .flatten(3);  // (n, h, w, ph * pw * channels)
  return Dense{embedding_.kernel.flatten(0, 2), embedding_.bias}(patches, pass);
}

at::Tensor Vit::encode(at::Tensor x, Pass& pass) const {
  const std::vector<Block> blocks = scan_ ? unstack(blocks_[0], shape_.depth) : blocks_;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const Block& block = blocks[i];
    const auto keep = [&](const char* name, const at::Tensor& value) {
      if (pass.features) pass.keep(fmt::format("encoder/block{:02}/{}", i, name).c_str(), value);
    };
    at::Tensor y = block.norm0(x);
    y = block.attention(y, y, pass);
    keep("sa", y);
    x = x + dropout(y, dropout_, pass);
    keep("+sa", x);
    y = block.mlp(block.norm1(x), dropout_, pass);
    keep("mlp", y);
    x = x + dropout(y, dropout_, pass);
    keep("+mlp", x);
  }
  if (!scan_) pass.keep("encoder/pre_ln", x);
  return encoder_norm_(x);
}

at::Tensor Vit::pool(const at::Tensor& encoded, Pass& pass) const {
  if (pool_type_ == "gap") return encoded.mean(1);
  if (pool_type_ == "0" || pool_type_ == "tok") return encoded.select(1, 0);
  if (pool_type_ == "none") return encoded;
  const at::Tensor probe = probe_.expand({encoded.size(0), 1, shape_.width});
  const at::Tensor x = map_attention_(probe, encoded, pass).to(at::kFloat);
  return (x + map_mlp_(map_norm_(x), /*dropout_rate=*/0, pass)).select(1, 0);
}

at::Tensor Vit::classify(const at::Tensor& x, const char* suffix, Pass& pass) const {
  const auto keep = [&](const char* name, const at::Tensor& value) {
    if (pass.features) pass.keep(fmt::format("{}{}", name, suffix).c_str(), value);
  };
  at::Tensor y = x;
  if (pre_logits_.kernel.defined()) y = at::tanh(pre_logits_(y, pass).to(at::kFloat));
  keep("pre_logits", y);
  if (!head_.kernel.defined()) return y;
  y = head_.head(y, pass);
  keep("logits", y);
  return y;
}

at::Tensor Vit::forward(const at::Tensor& image, Pass& pass) {
  const Precision outside = pass.precision;
  if (dtype_mm_) pass.precision = *dtype_mm_;
  const auto residual_type = dtype_mm_ == Precision::bf16 ? at::kBFloat16 : at::kFloat;
  at::Tensor x = embed(image, pass);
  pass.keep("stem", x);
  x = x.flatten(1, 2).to(residual_type);
  x = x + pos_embedding_.to(x.options());
  pass.keep("with_posemb", x);
  if (pool_type_ == "tok") {
    x = at::cat({cls_.to(residual_type).expand({x.size(0), 1, shape_.width}), x}, 1);
  }
  x = encode(dropout(x, dropout_, pass), pass);
  pass.keep("encoded", x);

  if (dtype_mm_) pass.precision = Precision::float32;  // whatever follows the last norm
  if (pass.features) {
    Pass aside = pass;
    aside.macs = nullptr;
    const at::Tensor grid = pool_type_ == "tok" ? x.slice(1, 1) : x;
    classify(grid.unflatten(1, {grid_height_, grid_width_}), "_2d", aside);
  }
  x = pool(x, pass);
  pass.keep("head_input", x);
  x = classify(x, "", pass);
  pass.precision = outside;
  return x;
}

const Register<Model, Vit> registered("vit");

}  // namespace
}  // namespace bv
