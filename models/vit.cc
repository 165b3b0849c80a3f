// vit: the Vision Transformer of big_vision's models/vit.py, class _Model.
//
// Activations: stem, with_posemb, encoder/block<NN>/{sa, +sa, mlp, +mlp}, encoder/pre_ln (without
// scan), encoded, head_input, pre_logits, pre_logits_2d, logits, logits_2d.
// Parameters: embedding/{kernel, bias}, pos_embedding, cls, Transformer/encoderblock_<i>/...,
// Transformer/encoder_norm/..., MAPHead_0/..., pre_logits/..., head/{kernel, bias}.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tanh.h>
#include <fmt/format.h>

#include "lib/config/key_table.h"
#include "lib/model/dropout.h"
#include "lib/model/layers.h"
#include "lib/model/transformer/encoder.h"
#include "lib/model/transformer/map_head.h"
#include "lib/model/transformer/patches.h"
#include "lib/model/transformer/position_embedding.h"

namespace bv {
namespace {

constexpr KeyText kVitKeys[] = {
    {"patch_size", "[int >= 1, int >= 1]", "= [16, 16], or that of `variant`",
     "Rows and columns of pixels in a patch; each patch becomes a token. Halving the side makes "
     "four times as many tokens, which is slower and usually more accurate. Pixels at the right "
     "and the bottom that do not fill a patch are not used."},
    {"pool_type", "'gap' | 'map' | 'tok' | '0' | 'none'", "gap",
     "How the tokens are pooled for the classification layer: `gap` averages them, `map` pools "
     "them by attention with a learned query, `tok` adds a learned class token and takes its "
     "output, and `0` takes the first token, for weights trained this way. `none` does not pool: "
     "every token gets logits and needs its own labels, so it is not for ordinary classification."},
    {"rep_size", "bool | int >= 0", "false",
     "Size of an additional dense layer with tanh before the classification layer: `true` makes it "
     "as large as `width`, `false` or 0 leaves it out. big_vision uses this layer to train on "
     "ImageNet-1k from scratch.",
     "true"},
    {"dropout", "float 0..<1", "0",
     "Dropout rate in training, from 0 (off) to below 1: for the embedded tokens, and in each "
     "block after the attention, inside the MLP and after it. Raise it, for instance to 0.1, if "
     "the model scores much better on the training data than on the test data."},
    kHeadZeroinit,
    {"scan", "bool", "false",
     "Whether to stack each parameter of all blocks into one array, as big_vision can. With the "
     "same weights the results are the same, and weights of either form can be loaded; the random "
     "weights of a new model differ. It is not faster here, and sharded "
     "training then has all blocks in memory at once, so leave it off unless a big_vision config "
     "sets it."},
    {"remat_policy", "'none' | 'nothing_saveable' | 'everything_saveable'",
     "= nothing_saveable with scan, else none",
     "Activation checkpointing: `nothing_saveable` keeps only the input of each block and "
     "recomputes the block in the backward pass, which takes the memory of one block instead of "
     "`depth` blocks and about a third more time. `none` and `everything_saveable` keep all "
     "activations. The results are the same."},
    {"dtype_mm", "'float32' | 'bfloat16'", "none",
     "Data type of the matrix multiplications in the transformer; it overrides the config's "
     "`precision`. With `bfloat16`, the values passed from block to block are rounded to bfloat16 "
     "too. It exists for big_vision configs; `precision` is the usual choice.",
     "bfloat16"},
};
const KeyTable vit_keys(
    "model: vit",
    {"The Vision Transformer: it splits the image into patches, turns each into a "
     "token, and processes the tokens in blocks of attention and MLP. `variant` "
     "names the usual sizes. Without pretrained weights it needs more data, or "
     "stronger augmentation, than a convolutional network.",
     "variant: S/16\nposemb: sincos2d\nrep_size: true", "models/vit.py _Model"},
    {}, kTransformerShapeKeys, kPosembKeys, kVitKeys);

// Reads the size of the layer before the head; 0 if there is none.
int64_t read_rep_size(const Config& config, int64_t width) {
  const std::string text = config.get<std::string>("rep_size", "false");
  if (text == "false" || text == "0") return 0;
  const int64_t size = text == "true" ? width : parse_positive(text);
  if (size == 0) {
    config.fail("rep_size", fmt::format("expected true, false or a size, got '{}'", text));
  }
  return size;
}

EncoderOptions read_encoder_options(const Config& config, double dropout) {
  EncoderOptions options;
  options.dropout = dropout;
  options.scan = config.get<bool>("scan", false);
  const std::string policy = config.word("remat_policy", options.scan ? "nothing_saveable" : "none",
                                         {"nothing_saveable", "everything_saveable", "none"});
  options.remat = policy == "nothing_saveable";
  return options;
}

class Vit : public Model {
 public:
  Vit(const Config& config, const ModelEnv& env);
  at::Tensor forward(const at::Tensor& image, Pass& pass) override;
  bool takes_size(int64_t height, int64_t width) const override {
    return height / shape_.patch_height == grid_height_ &&
           width / shape_.patch_width == grid_width_;
  }
  TokenGrid position_grid() const override { return {grid_height_, grid_width_}; }
  std::vector<std::string> units() const override { return encoder_.units(); }

 private:
  at::Tensor pool(const at::Tensor& encoded, Pass& pass) const;  // (n, D)
  // Applies the layer before the head, then the head. Appends `suffix` to the activations' names.
  at::Tensor classify(const at::Tensor& x, const char* suffix, Pass& pass) const;

  const TransformerShape shape_;
  const double dropout_;
  const std::string pool_type_;
  std::optional<Precision> dtype_mm_;
  int64_t grid_height_ = 0, grid_width_ = 0;

  Dense embedding_;                  // kernel (P, P, channels, D)
  PositionEmbedding pos_embedding_;  // (1, N, D)
  at::Tensor cls_;                   // (1, 1, D)
  Encoder encoder_;
  MapHead map_head_;
  Dense pre_logits_, head_;
};

Vit::Vit(const Config& config, const ModelEnv& env)
    : shape_(read_transformer_shape(config, /*patch=*/16)),
      dropout_(config.get<double>("dropout", 0.0)),
      pool_type_(config.word("pool_type", "gap", {"gap", "map", "tok", "0", "none"})) {
  const EncoderOptions options = read_encoder_options(config, dropout_);
  const std::string dtype_mm =
      config.has("dtype_mm") ? config.word("dtype_mm", "", {"float32", "bfloat16"}) : "";
  if (dtype_mm == "float32") dtype_mm_ = Precision::float32;
  if (dtype_mm == "bfloat16") dtype_mm_ = Precision::bf16;
  if (!(dropout_ >= 0 && dropout_ < 1)) config.fail("dropout", "must be in [0, 1)");
  const int64_t width = shape_.width;
  grid_height_ = env.height / shape_.patch_height;
  grid_width_ = env.width / shape_.patch_width;
  const char* const patch_key = config.has("patch_size") ? "patch_size" : "variant";
  if (grid_height_ < 1 || grid_width_ < 1) {
    config.fail(patch_key,
                fmt::format("patches of {}x{} are larger than the images of {}x{}",
                            shape_.patch_height, shape_.patch_width, env.height, env.width));
  }
  const std::string cut_off =
      cut_off_text(env.height, env.width, shape_.patch_height, shape_.patch_width);
  if (!cut_off.empty()) config.warn(patch_key, cut_off);

  const int64_t pixels = shape_.patch_height * shape_.patch_width * env.channels;
  embedding_ = {add_parameter("embedding/kernel",
                              {shape_.patch_height, shape_.patch_width, env.channels, width},
                              lecun_normal(pixels), {3, 0, 1, 2}),
                add_parameter("embedding/bias", {width}, zeros())};
  pos_embedding_ = add_position_embedding(*this, config, grid_height_, grid_width_, width);
  if (pool_type_ == "tok") cls_ = add_parameter("cls", {1, 1, width}, zeros());
  encoder_ = Encoder::add(*this, shape_, options);
  if (pool_type_ == "map") map_head_ = MapHead::add(*this, shape_);
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

at::Tensor Vit::pool(const at::Tensor& encoded, Pass& pass) const {
  if (pool_type_ == "gap") return encoded.mean(1);
  if (pool_type_ == "0" || pool_type_ == "tok") return encoded.select(1, 0);
  if (pool_type_ == "none") return encoded;
  return map_head_(encoded, pass);
}

at::Tensor Vit::classify(const at::Tensor& x, const char* suffix, Pass& pass) const {
  const auto keep = [&](const char* name, const at::Tensor& value) {
    if (pass.features) pass.keep(fmt::format("{}{}", name, suffix).c_str(), value);
  };
  at::Tensor y = x;
  if (pre_logits_.kernel.defined()) y = at::tanh(pre_logits_(y, pass).to(at::kFloat));
  keep("pre_logits", y);
  const bool aside = *suffix != '\0';
  if (!head_.kernel.defined() || (aside && !pass.wants("logits_2d"))) return y;
  y = head_.head(y, pass);
  keep("logits", y);
  return y;
}

at::Tensor Vit::forward(const at::Tensor& image, Pass& pass) {
  const Precision outside = pass.precision;
  if (dtype_mm_) pass.precision = *dtype_mm_;
  const auto residual_type = dtype_mm_ == Precision::bf16 ? at::kBFloat16 : at::kFloat;
  at::Tensor x = Dense{embedding_.kernel.flatten(0, 2), embedding_.bias}(
      patches(to_compute(image, pass), shape_.patch_height, shape_.patch_width), pass);
  pass.keep("stem", x);
  x = x.flatten(1, 2).to(residual_type);
  x = x + pos_embedding_.on(x.options());
  pass.keep("with_posemb", x);
  if (pool_type_ == "tok") {
    x = at::cat({cls_.to(residual_type).expand({x.size(0), 1, shape_.width}), x}, 1);
  }
  x = encoder_(dropout(x, dropout_, pass), pass);
  pass.keep("encoded", x);

  if (dtype_mm_) pass.precision = Precision::float32;  // for everything after the last norm
  if (pass.wants("pre_logits_2d") || pass.wants("logits_2d")) {
    Pass aside = pass;
    aside.macs = nullptr;
    const at::Tensor grid = pool_type_ == "tok" ? x.slice(1, 1) : x;
    classify(grid.unflatten(1, {grid_height_, grid_width_}), "_2d", aside);
  }
  x = pool(x, pass);
  if (pool_type_ != "none") pass.keep("head_input", x);
  x = classify(x, "", pass);
  pass.precision = outside;
  return x;
}

const Register<Model, Vit> registered_vit("vit");
const RegisterVariants vit_variants("vit", transformer_variants());

}  // namespace
}  // namespace bv
