// resnet_cifar: the residual network of "How to train your ResNet" (D. Page, 2018).
//
//   prep     3x3 convolution to `width` channels, norm, ReLU
//   stage i  (from 1) 3x3 convolution to width * 2^i channels, norm, ReLU, 2x2 max pool; then
//            blocks[i - 1] residual blocks x + g(f(x)), where f and g are each
//            ReLU(norm(3x3 convolution)) with parameters of their own
//   head     maximum over space, dense layer; the logits are multiplied by logit_scale
//
// Convolutions have no bias and start He normal; the head's kernel starts LeCun normal.
// Activations: prep and stage<i> (n, c, h, w), pre_logits (n, c), logits.
// Parameters: prep/{conv/kernel, norm/{scale, bias}}, stage<i>/{conv/kernel, norm/{scale, bias}},
// stage<i>/block<j>/{conv1/kernel, norm1/{scale, bias}, conv2/kernel, norm2/{scale, bias}},
// head/{kernel, bias}. With norm: batch each norm also has the buffers mean and var.
#include <ATen/TensorOperators.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>
#include <fmt/format.h>

#include <variant>

#include "lib/config/key_table.h"
#include "lib/model/layers.h"

namespace bv {
namespace {

const KeyTable keys(
    "model: resnet_cifar",
    {"A small and fast residual network for images of about 32x32 pixels, such as CIFAR's. Its "
     "defaults are the network with nine layers and 6.6 million parameters of D. Page's DAWNBench "
     "entry, \"How to train your ResNet\" (2018).",
     "width: 64\nblocks: [1, 0, 1]"},
    {{"width", "int >= 1", "64",
      "Number of channels of the first convolution; each stage doubles it. With `norm: group` it "
      "must be a multiple of 16."},
     {"blocks", "list of int >= 0", "[1, 0, 1]",
      "Number of residual blocks in each stage; there are as many stages as numbers. A stage "
      "halves height and width, so n stages need images of at least 2^n pixels a side."},
     {"norm", "'batch' | 'group'", "batch",
      "How values are normalised: `batch` uses the mean and variance over the images of all "
      "processes that are computed together (see `grad_accum_steps`), and running averages of "
      "them in evaluation; `group` uses those of 16 channels of one image. Take `group` if the "
      "batch is small."},
     {"logit_scale", "float", "0.125",
      "Factor of the scores of the classes. Smaller values make the predictions less certain."}});

// Convolution, norm and ReLU, followed by a 2x2 max pool if `pool`.
struct ConvNormRelu {
  Conv2d conv;
  std::variant<BatchNorm, GroupNorm> norm;

  at::Tensor operator()(const at::Tensor& x, bool pool, Pass& pass) const {
    const at::Tensor y = conv(x, pass);
    if (const auto* batch = std::get_if<BatchNorm>(&norm)) return batch->relu(y, pool, pass);
    const at::Tensor z = at::relu(std::get<GroupNorm>(norm)(y));
    return pool ? at::max_pool2d(z, 2) : z;
  }
};

struct Stage {
  ConvNormRelu downsample;  // with the max pool
  std::vector<std::pair<ConvNormRelu, ConvNormRelu>> blocks;
};

class ResnetCifar : public Model {
 public:
  ResnetCifar(const Config& config, const ModelEnv& env)
      : batch_norm_(config.word("norm", "batch", {"batch", "group"}) == "batch"),
        logit_scale_(config.get<double>("logit_scale", 0.125)) {
    const auto width = config.get<int64_t>("width", 64);
    const auto blocks = config.get<std::vector<int64_t>>("blocks", {1, 0, 1});
    if (width < 1) config.fail("width", fmt::format("must be positive, got {}", width));
    if (!batch_norm_ && width % kGroupSize != 0) {
      config.fail("width",
                  fmt::format("norm: group needs a multiple of {}, got {}", kGroupSize, width));
    }
    if (std::min(env.height, env.width) >> blocks.size() < 1) {
      config.fail("blocks", fmt::format("{} stages halve images of {}x{} to nothing", blocks.size(),
                                        env.height, env.width));
    }
    prep_ = add_conv_norm_relu("prep/conv", "prep/norm", env.channels, width);
    int64_t channels = width;
    for (size_t i = 0; i < blocks.size(); ++i) {
      if (blocks[i] < 0) config.fail("blocks", "must not be negative");
      const std::string path = fmt::format("stage{}/", i + 1);
      Stage stage;
      stage.downsample = add_conv_norm_relu(path + "conv", path + "norm", channels, 2 * channels);
      channels *= 2;
      for (int64_t j = 1; j <= blocks[i]; ++j) {
        const std::string block = fmt::format("{}block{}/", path, j);
        ConvNormRelu first =
            add_conv_norm_relu(block + "conv1", block + "norm1", channels, channels);
        stage.blocks.emplace_back(
            std::move(first),
            add_conv_norm_relu(block + "conv2", block + "norm2", channels, channels));
      }
      stages_.push_back(std::move(stage));
    }
    if (env.num_classes > 0) {
      head_ = Dense::add(*this, "head", channels, env.num_classes, lecun_normal(channels));
    }
  }

  at::Tensor forward(const at::Tensor& image, Pass& pass) override {
    at::Tensor x = prep_(image.permute({0, 3, 1, 2}), /*pool=*/false, pass);
    pass.keep("prep", x);
    for (size_t i = 0; i < stages_.size(); ++i) {
      pass.enter(static_cast<int>(i), x);
      x = stages_[i].downsample(x, /*pool=*/true, pass);
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

  std::vector<std::string> units() const override {
    std::vector<std::string> all;
    for (size_t i = 0; i < stages_.size(); ++i) all.push_back(fmt::format("stage{}/", i + 1));
    return all;
  }

 private:
  static constexpr int64_t kGroupSize = 16;

  ConvNormRelu add_conv_norm_relu(const std::string& conv, const std::string& norm, int64_t in,
                                  int64_t out) {
    ConvNormRelu made;
    made.conv = Conv2d::add(*this, conv, 3, in, out, he_normal(9 * in), /*with_bias=*/false);
    if (batch_norm_) {
      made.norm = BatchNorm::add(*this, norm, out);
    } else {
      made.norm = GroupNorm::add(*this, norm, out, out / kGroupSize);
    }
    return made;
  }

  const bool batch_norm_;
  const double logit_scale_;
  ConvNormRelu prep_;
  std::vector<Stage> stages_;
  Dense head_;
};

const Register<Model, ResnetCifar> registered("resnet_cifar");

}  // namespace
}  // namespace bv
