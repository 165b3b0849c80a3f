// mlp_mixer: the MLP-Mixer (Tolstikhin et al., 2021) of big_vision's models/mlp_mixer.py, class
// MlpMixer.
//
// The head's kernel starts at zero, all other kernels LeCun normal.
// Activations: stem (n, h, w, D), input_tokens and block_<i> (n, N, D), pre_logits, logits.
// Parameters: stem/{kernel, bias}, MixerBlock_<i>/{LayerNorm_0, LayerNorm_1, token_mixing,
// channel_mixing}/..., pre_head_layer_norm/{scale, bias}, head/{kernel, bias}.
#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include "lib/config/key_table.h"
#include "lib/model/layers.h"
#include "lib/model/stochastic_depth.h"
#include "lib/model/transformer/patches.h"
#include "lib/model/variants.h"

namespace bv {
namespace {

const KeyTable mlp_mixer_keys(
    "model: mlp_mixer",
    {"The MLP-Mixer (Tolstikhin et al., 2021): it splits the image into patches and mixes them by "
     "alternating MLPs over the patches and over the features, without attention. Give `variant`, "
     "or all five sizes. Its weights fit images of one size only.",
     "variant: B/16\nstoch_depth: 0.1", "models/mlp_mixer.py MlpMixer"},
    {{"variant", "string", "\"\"",
      "Name of a published size, S, B, L or H, with a patch size, as in B/16. It sets "
      "`patch_size`, `hidden_dim`, `num_blocks`, `tokens_mlp_dim` and `channels_mlp_dim`. Explicit "
      "keys override it.",
      "B/16"},
     {"patch_size", "[int >= 1, int >= 1]", "= from variant",
      "Rows and columns of pixels in a patch; required without `variant`. Images are padded with "
      "zeros to whole patches. Smaller patches are slower and usually more accurate.",
      "[16, 16]"},
     {"hidden_dim", "int >= 1", "= from variant",
      "Number of features of each patch; required without `variant`.", "768"},
     {"num_blocks", "int >= 1", "= from variant",
      "Number of blocks, each with one MLP over patches and one over features; required without "
      "`variant`.",
      "12"},
     {"tokens_mlp_dim", "int >= 1", "= from variant",
      "Number of hidden features in the MLPs over patches; required without `variant`.", "384"},
     {"channels_mlp_dim", "int >= 1", "= from variant",
      "Number of hidden features in the MLPs over features; required without `variant`.", "3072"},
     {"stoch_depth", "float 0..1", "0",
      "Stochastic depth: the probability that training skips an MLP of the last block, drawn for "
      "each example. From the last block back to the first, it falls linearly to 0. Unlike in "
      "timm, the outputs of the other MLPs are not divided by 1 - probability. It regularizes "
      "like dropout; big_vision trains on ImageNet with 0.1."}});

struct MixerShape {
  const char* name = "";
  int64_t hidden_dim = 0, num_blocks = 0, channels_mlp_dim = 0, tokens_mlp_dim = 0;
  std::vector<int64_t> patch_size = {};
};
const MixerShape kSizes[] = {
    {"S", 512, 8, 2048, 256},
    {"B", 768, 12, 3072, 384},
    {"L", 1024, 24, 4096, 512},
    {"H", 1280, 32, 5120, 640},
};

MixerShape read_shape(const Config& config) {
  std::vector<std::string> known;
  for (const MixerShape& size : kSizes) known.emplace_back(size.name);
  const auto variant = read_variant(config, known, /*needs_patch=*/true);
  MixerShape shape;
  if (variant) {
    for (const MixerShape& size : kSizes) {
      if (variant->size == size.name) shape = size;
    }
    shape.patch_size = {variant->patch, variant->patch};
  }
  const auto positive = [&](const char* key, int64_t& value) {
    value = variant ? config.get<int64_t>(key, value) : config.get<int64_t>(key);
    if (value < 1) config.fail(key, fmt::format("must be positive, got {}", value));
  };
  positive("hidden_dim", shape.hidden_dim);
  positive("num_blocks", shape.num_blocks);
  positive("tokens_mlp_dim", shape.tokens_mlp_dim);
  positive("channels_mlp_dim", shape.channels_mlp_dim);
  shape.patch_size = variant ? config.get<std::vector<int64_t>>("patch_size", shape.patch_size)
                             : config.get<std::vector<int64_t>>("patch_size");
  const auto& sides = shape.patch_size;
  if (sides.size() != 2 || sides[0] < 1 || sides[1] < 1) {
    config.fail("patch_size", "must be two positive numbers [rows, columns]");
  }
  warn_of_overridden_variant(
      config, {"hidden_dim", "num_blocks", "tokens_mlp_dim", "channels_mlp_dim", "patch_size"});
  return shape;
}

struct Block {
  LayerNorm norm0, norm1;
  Mlp tokens;    // kernels (N, tokens_mlp_dim), (tokens_mlp_dim, N)
  Mlp channels;  // (D, channels_mlp_dim), (channels_mlp_dim, D)
  double drop = 0;
};

class MlpMixer : public Model {
 public:
  MlpMixer(const Config& config, const ModelEnv& env)
      : shape_(read_shape(config)), stoch_depth_(config.get<double>("stoch_depth", 0.0)) {
    if (!(stoch_depth_ >= 0 && stoch_depth_ <= 1)) {
      config.fail("stoch_depth", fmt::format("must be in [0, 1], got {}", stoch_depth_));
    }
    const int64_t width = shape_.hidden_dim, ph = shape_.patch_size[0], pw = shape_.patch_size[1];
    grid_ = grid_of(env.height, env.width);
    const int64_t tokens = grid_.size();
    stem_ = {add_parameter("stem/kernel", {ph, pw, env.channels, width},
                           lecun_normal(ph * pw * env.channels), {3, 0, 1, 2}),
             add_parameter("stem/bias", {width}, zeros())};
    for (int64_t i = 0; i < shape_.num_blocks; ++i) {
      const std::string name = fmt::format("MixerBlock_{}/", i);
      Block block = {LayerNorm::add(*this, name + "LayerNorm_0", width),
                     LayerNorm::add(*this, name + "LayerNorm_1", width),
                     add_mlp(name + "token_mixing", tokens, shape_.tokens_mlp_dim),
                     add_mlp(name + "channel_mixing", width, shape_.channels_mlp_dim)};
      const auto last = static_cast<double>(std::max<int64_t>(shape_.num_blocks - 1, 1));
      block.drop = static_cast<double>(i) / last * stoch_depth_;
      blocks_.push_back(std::move(block));
    }
    norm_ = LayerNorm::add(*this, "pre_head_layer_norm", width);
    if (env.num_classes > 0) head_ = Dense::add(*this, "head", width, env.num_classes, zeros());
  }

  at::Tensor forward(const at::Tensor& image, Pass& pass) override {
    const int64_t ph = shape_.patch_size[0], pw = shape_.patch_size[1];
    const at::Tensor padded = pad_to_patches(to_compute(image, pass), ph, pw);
    at::Tensor x = Dense{stem_.kernel.flatten(0, 2), stem_.bias}(patches(padded, ph, pw), pass);
    pass.keep("stem", x);
    x = x.flatten(1, 2).to(at::kFloat);  // (n, N, D)
    pass.keep("input_tokens", x);
    const at::ScalarType type = compute_type(pass);
    Residual stream(x);
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const Block& block = blocks_[i];
      if (pass.hooks) pass.enter(static_cast<int>(i), stream.sum());
      at::Tensor y = block.tokens.over_tokens(stream.normalised(block.norm0, type), pass);
      stream.add(stochastic_depth(y, block.drop, pass));
      y = block.channels(stream.normalised(block.norm1, type), /*dropout_rate=*/0, pass);
      stream.add(stochastic_depth(y, block.drop, pass));
      if (pass.hooks) pass.leave(static_cast<int>(i), stream.sum());
      if (pass.features) pass.keep(fmt::format("block_{}", i).c_str(), stream.sum());
    }
    x = stream.normalised(norm_).mean(1);
    pass.keep("pre_logits", x);
    if (!head_.kernel.defined()) return x;
    x = head_.head(x, pass);
    pass.keep("logits", x);
    return x;
  }

  bool takes_size(int64_t height, int64_t width) const override {
    return grid_of(height, width) == grid_;
  }

  std::vector<std::string> units() const override {
    std::vector<std::string> all;
    for (int64_t i = 0; i < shape_.num_blocks; ++i) all.push_back(fmt::format("MixerBlock_{}/", i));
    return all;
  }

 private:
  // Returns the grid of an image's patches. forward() pads the image to whole patches.
  TokenGrid grid_of(int64_t height, int64_t width) const {
    const int64_t ph = shape_.patch_size[0], pw = shape_.patch_size[1];
    return {(height + ph - 1) / ph, (width + pw - 1) / pw};
  }
  // Initializes kernels LeCun normal and biases to zero, unlike Mlp::add(), which follows vit.
  Mlp add_mlp(const std::string& name, int64_t features, int64_t hidden) {
    return {Dense::add(*this, name + "/Dense_0", features, hidden, lecun_normal(features)),
            Dense::add(*this, name + "/Dense_1", hidden, features, lecun_normal(hidden))};
  }

  const MixerShape shape_;
  const double stoch_depth_;
  TokenGrid grid_;  // the grid of patches for which token mixing has weights
  Dense stem_;      // kernel (P, P, channels, D)
  std::vector<Block> blocks_;
  LayerNorm norm_;
  Dense head_;
};

std::vector<NamedVariant> mixer_sizes() {
  std::vector<NamedVariant> all;
  for (const char* name : {"S/32", "S/16", "B/32", "B/16", "L/16", "H/14"}) {
    all.push_back({name, fmt::format("{{variant: {}}}", name)});
  }
  return all;
}

const Register<Model, MlpMixer> registered_mlp_mixer("mlp_mixer");
const RegisterVariants mlp_mixer_variants("mlp_mixer", mixer_sizes());

}  // namespace
}  // namespace bv
