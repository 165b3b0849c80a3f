// resnet_cifar: the residual network of "How to train your ResNet" (D. Page, 2018).
//
//   prep     3x3 convolution to `width` channels, norm, ReLU; with `whitening` instead a 2x2
//            convolution with fixed filters (lib/model/whitening.h), bias, ReLU
//   stage i  (from 1) 3x3 convolution to width * 2^i or widths[i - 1] channels, norm, ReLU, 2x2 max
//            pool; with `stage_convs: 2` a second 3x3 convolution, norm, ReLU; then blocks[i - 1]
//            residual blocks x + g(f(x)), where f and g are each ReLU(norm(3x3 convolution)) with
//            separate parameters
//   head     maximum over space, dense layer; the logits are multiplied by logit_scale
//
// The keys whitening: 2000, widths: [64, 256, 256], stage_convs: 2 and blocks: [0, 0, 0] give
// almost the network of airbench94 (K. Jordan, "94% on CIFAR-10 in 3.29 Seconds on a Single GPU",
// 2024). That network uses GELU instead of ReLU, and pools before the norm.
//
// Convolutions have no bias and start He normal. With `identity_init` they start as the identity
// where their shape allows it, and elsewhere with PyTorch's default variance 1 / (3 fan_in). The
// head's kernel starts LeCun normal.
// Activations: prep and stage<i> (n, c, h, w), pre_logits (n, c), logits.
// Parameters: prep/{conv/kernel, norm/{scale, bias}} or prep/bias, stage<i>/{conv/kernel,
// norm/{scale, bias}}, stage<i>/{conv2/kernel, norm2/{scale, bias}},
// stage<i>/block<j>/{conv1/kernel, norm1/{scale, bias}, conv2/kernel, norm2/{scale, bias}},
// head/{kernel, bias}. With norm: batch each norm also has the buffers mean and var. With whitening
// there is the buffer prep/kernel.
#include <ATen/TensorOperators.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>
#include <fmt/format.h>

#include <optional>
#include <variant>

#include "lib/config/key_table.h"
#include "lib/model/layers.h"
#include "lib/model/scaled_logits.h"
#include "lib/model/whitening.h"

namespace bv {
namespace {

const KeyTable resnet_cifar_keys(
    "model: resnet_cifar",
    {"A small and fast residual network for images of about 32x32 pixels, such as CIFAR's. The "
     "defaults give the network of D. Page's DAWNBench entry, \"How to train your ResNet\" (2018): "
     "nine layers, 6.6 million parameters.",
     "width: 64\nblocks: [1, 0, 1]"},
    {{"width", "int >= 1", "64",
      "Number of channels of the first convolution; each stage doubles it. With `norm: group` it "
      "must be a multiple of 16."},
     {"widths", "list of int >= 1", "= 2 * width, 4 * width, ...",
      "Number of channels of each stage, one per number in `blocks`. With `norm: group`, multiples "
      "of 16.",
      "[64, 256, 256]"},
     {"whitening", "int >= 0", "0",
      "Number of training images for computing a whitening first layer; 2000 are enough, and 0 "
      "means an ordinary first layer. For each patch of 2x2 pixels, its outputs are uncorrelated "
      "and of equal variance; its filters are not trained. The network learns faster in the first "
      "epochs. `width` then sets only the widths of the stages, unless `widths` does."},
     {"stage_convs", "int 1..2", "1",
      "Number of convolutions in each stage, besides those of its residual blocks. The first one "
      "is before the pool."},
     {"identity_init", "bool", "false",
      "Whether convolutions start as the identity: output channel i is input channel i, as far as "
      "there are input channels. This helps short runs of networks without residual blocks."},
     {"blocks", "list of int >= 0", "[1, 0, 1]",
      "Number of residual blocks in each stage; there are as many stages as numbers. A stage "
      "halves height and width, so n stages need images of at least 2^n pixels per side."},
     {"norm", "'batch' | 'group'", "batch",
      "Normalization: `batch` uses the mean and variance over the images that all processes "
      "compute together (see `grad_accum_steps`), and their running averages in evaluation and "
      "while its scale and bias are frozen (`schedule`); `group` uses those of 16 channels of one "
      "image. Use `group` if the batch is small."},
     {"logit_scale", "float", "0.125",
      "Scale of the logits. Smaller values make the predictions less confident."}});

// Convolution, norm and ReLU, followed by a 2x2 max pool if `pool`.
struct ConvNormRelu {
  Conv2d conv;
  std::variant<BatchNorm, GroupNorm> norm;

  at::Tensor operator()(const at::Tensor& x, bool pool, Pass& pass) const {
    const at::Tensor y = conv(x, pass);
    if (const auto* batch = std::get_if<BatchNorm>(&norm)) return batch->relu(y, pool, pass);
    const at::Tensor z = std::get<GroupNorm>(norm).relu(y, y.scalar_type());
    return pool ? at::max_pool2d(z, 2) : z;
  }
};

struct Stage {
  ConvNormRelu downsample;  // with the max pool
  std::optional<ConvNormRelu> second;
  std::vector<std::pair<ConvNormRelu, ConvNormRelu>> blocks;
};

// Applies fixed filters to patches of 2x2 pixels and adds a trained bias.
struct WhiteningLayer {
  static constexpr int64_t kSize = 2;
  // Added to the eigenvalues, as a fraction of their mean: weaker components are noise.
  static constexpr double kEps = 5e-4;
  at::Tensor kernel;  // (2, 2, in, out), a buffer
  at::Tensor bias;    // (out)

  static int64_t filters(int64_t in) { return 2 * kSize * kSize * in; }
  // Registers `name`/bias and the buffer `name`/kernel, which passes +-pixels until fit().
  static WhiteningLayer add(Module& owner, const std::string& name, int64_t in) {
    const int64_t out = filters(in), half = out / 2;
    WhiteningLayer layer;
    layer.bias = owner.add_parameter(name + "/bias", {out}, zeros());
    const at::Tensor pixels = at::eye(half, at::TensorOptions(at::kFloat));
    layer.kernel = owner.add_buffer(
        name + "/kernel",
        at::cat({pixels, -pixels}, 1).view({kSize, kSize, in, out}).to(layer.bias.device()));
    return layer;
  }
  void fit(const std::function<at::Tensor()>& next) const {
    PatchCovariance covariance(kSize, kernel.size(2));
    for (at::Tensor image = next(); image.defined(); image = next()) covariance.add(image);
    at::Tensor values = kernel;
    if (covariance.patches() > 0) values.copy_(covariance.filters(kEps));
  }
  // Maps (n, in, h, w) to (n, out, h, w). Pads the end of rows and columns with zeros.
  at::Tensor operator()(const at::Tensor& x, Pass& pass) const {
    const at::Tensor padded = at::constant_pad_nd(to_compute(x, pass), {0, 1, 0, 1});
    const at::Tensor y = convolve(padded.contiguous(at::MemoryFormat::ChannelsLast),
                                  kernel.permute({3, 2, 0, 1}), bias, {1, 1}, {0, 0}, pass);
    return at::relu(y);
  }
};

class ResnetCifar : public Model, public ScaledLogits {
 public:
  ResnetCifar(const Config& config, const ModelEnv& env)
      : batch_norm_(config.word("norm", "batch", {"batch", "group"}) == "batch"),
        identity_init_(config.get<bool>("identity_init", false)),
        whitening_(config.get<int64_t>("whitening", 0)),
        logit_scale_(config.get<double>("logit_scale", 0.125)) {
    const auto width = config.get<int64_t>("width", kWidth);
    const auto blocks = config.get<std::vector<int64_t>>("blocks", {1, 0, 1});
    const auto convs = config.get<int64_t>("stage_convs", 1);
    check_width(config, "width", width);
    if (logit_scale_ == 0) config.fail("logit_scale", "must not be 0: all gradients would be 0");
    if (convs < 1 || convs > 2)
      config.fail("stage_convs", fmt::format("must be 1 or 2, got {}", convs));
    if (blocks.size() >= 63 || std::min(env.height, env.width) >> blocks.size() < 1) {
      config.fail("blocks", fmt::format("{} stages halve images of {}x{} to nothing", blocks.size(),
                                        env.height, env.width));
    }
    const std::vector<int64_t> widths = stage_widths(config, width, blocks.size());
    if (whitening_ > 0 && config.has("widths") && width != kWidth)
      config.warn("width", "has no effect, because `whitening` and `widths` are given");
    int64_t channels = add_first_layer(config, env, width);
    for (size_t i = 0; i < blocks.size(); ++i) {
      if (blocks[i] < 0) config.fail("blocks", "must not be negative");
      add_stage(fmt::format("stage{}/", i + 1), channels, widths[i], convs == 2, blocks[i]);
      channels = widths[i];
    }
    if (env.num_classes > 0) {
      head_ = Dense::add(*this, "head", channels, env.num_classes, lecun_normal(channels));
    }
  }

  int64_t fit_images() const override { return whitening_; }
  void fit(const std::function<at::Tensor()>& next) override { whiten_->fit(next); }

  at::Tensor forward(const at::Tensor& image, Pass& pass) override {
    at::Tensor x = image.permute({0, 3, 1, 2});
    x = whiten_ ? (*whiten_)(x, pass) : prep_(x, /*pool=*/false, pass);
    pass.keep("prep", x);
    for (size_t i = 0; i < stages_.size(); ++i) {
      pass.enter(static_cast<int>(i), x);
      x = stages_[i].downsample(x, /*pool=*/true, pass);
      if (stages_[i].second) x = (*stages_[i].second)(x, /*pool=*/false, pass);
      for (const auto& [first, second] : stages_[i].blocks) {
        x = x + second(first(x, false, pass), false, pass);
      }
      pass.leave(static_cast<int>(i), x);
      if (pass.features) pass.keep(fmt::format("stage{}", i + 1).c_str(), x);
    }
    x = at::amax(x, {2, 3}).to(at::kFloat);
    pass.keep("pre_logits", x);
    if (!head_.kernel.defined()) return x;
    x = head_.head(x, pass) * logit_scale_;
    pass.keep("logits", x);
    return x;
  }

  double logit_scale() const override { return logit_scale_; }

  std::vector<std::string> units() const override {
    std::vector<std::string> all;
    for (size_t i = 0; i < stages_.size(); ++i) all.push_back(fmt::format("stage{}/", i + 1));
    return all;
  }

 private:
  static constexpr int64_t kGroupSize = 16;
  static constexpr int64_t kWidth = 64;  // the default

  void check_width(const Config& config, const char* key, int64_t width) const {
    if (width < 1) config.fail(key, fmt::format("must be positive, got {}", width));
    if (!batch_norm_ && width % kGroupSize != 0) {
      config.fail(key,
                  fmt::format("norm: group needs a multiple of {}, got {}", kGroupSize, width));
    }
  }

  std::vector<int64_t> stage_widths(const Config& config, int64_t width, size_t stages) const {
    std::vector<int64_t> widths;
    for (size_t i = 0; i < stages; ++i) widths.push_back(width *= 2);
    if (!config.has("widths")) return widths;
    widths = config.get<std::vector<int64_t>>("widths");
    if (widths.size() != stages) {
      config.fail("widths", fmt::format("has {} numbers, but `blocks` has {}: one for each stage",
                                        widths.size(), stages));
    }
    for (const int64_t each : widths) check_width(config, "widths", each);
    return widths;
  }

  // Adds the layers before the stages and returns the number of their channels.
  int64_t add_first_layer(const Config& config, const ModelEnv& env, int64_t width) {
    if (whitening_ < 0)
      config.fail("whitening", fmt::format("must not be negative, got {}", whitening_));
    if (whitening_ == 0) {
      prep_ = add_conv_norm_relu("prep/conv", "prep/norm", env.channels, width);
      return width;
    }
    whiten_ = WhiteningLayer::add(*this, "prep", env.channels);
    return WhiteningLayer::filters(env.channels);
  }

  void add_stage(const std::string& path, int64_t in, int64_t out, bool second, int64_t blocks) {
    Stage stage;
    stage.downsample = add_conv_norm_relu(path + "conv", path + "norm", in, out);
    if (second) stage.second = add_conv_norm_relu(path + "conv2", path + "norm2", out, out);
    for (int64_t j = 1; j <= blocks; ++j) {
      const std::string block = fmt::format("{}block{}/", path, j);
      ConvNormRelu first = add_conv_norm_relu(block + "conv1", block + "norm1", out, out);
      stage.blocks.emplace_back(std::move(first),
                                add_conv_norm_relu(block + "conv2", block + "norm2", out, out));
    }
    stages_.push_back(std::move(stage));
  }

  ConvNormRelu add_conv_norm_relu(const std::string& conv, const std::string& norm, int64_t in,
                                  int64_t out) {
    ConvNormRelu made;
    const Init init = identity_init_ ? identity(lecun_normal(27 * in)) : he_normal(9 * in);
    made.conv = Conv2d::add(*this, conv, 3, in, out, init, /*with_bias=*/false);
    if (batch_norm_) {
      made.norm = BatchNorm::add(*this, norm, out);
    } else {
      made.norm = GroupNorm::add(*this, norm, out, out / kGroupSize);
    }
    return made;
  }

  const bool batch_norm_;
  const bool identity_init_;
  const int64_t whitening_;  // the number of images; 0: no whitening
  const double logit_scale_;
  std::optional<WhiteningLayer> whiten_;  // in place of prep_
  ConvNormRelu prep_;
  std::vector<Stage> stages_;
  Dense head_;
};

const Register<Model, ResnetCifar> registered_resnet_cifar("resnet_cifar");

}  // namespace
}  // namespace bv
