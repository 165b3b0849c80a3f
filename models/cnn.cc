// cnn: the small convolutional network of flax's MNIST example (examples/mnist/train.py, class
// CNN). For each of `widths`: a 3x3 convolution (SAME), ReLU and a 2x2 average pool. Then a dense
// layer, ReLU, dropout and the head.
//
// All kernels start LeCun normal, biases at zero.
// Activations: conv_<i> (n, c, h, w) after each pool, pre_logits (n, dense), logits.
// Parameters: Conv_<i>/{kernel, bias}, Dense_0/{kernel, bias}, head/{kernel, bias}.
#include <ATen/ops/relu.h>
#include <fmt/format.h>

#include "lib/config/key_table.h"
#include "lib/model/dropout.h"
#include "lib/model/layers.h"

namespace bv {
namespace {

const KeyTable cnn_keys(
    "model: cnn",
    {"A small convolutional network for small images such as MNIST's, after flax's MNIST example. "
     "For each number in `widths` it has a 3x3 convolution, ReLU and a 2x2 average pool. A hidden "
     "dense layer and the classification layer follow.",
     "widths: [32, 64]\ndropout: 0.5"},
    {{"widths", "list of int >= 1", "[32, 64]",
      "Number of channels of each convolution, in order. A pool after each halves height and "
      "width, so n convolutions need images of at least 2^n pixels per side."},
     {"dense", "int >= 1", "256", "Number of features of the hidden dense layer."},
     {"dropout", "float 0..<1", "0",
      "Dropout rate of the hidden layer in training, from 0 (off) to below 1. Raise it, for "
      "instance to 0.5, if the model scores much better on the training data than on the test "
      "data."}});

class Cnn : public Model {
 public:
  Cnn(const Config& config, const ModelEnv& env) : dropout_(config.get<double>("dropout", 0.0)) {
    const auto widths = config.get<std::vector<int64_t>>("widths", {32, 64});
    const auto hidden = config.get<int64_t>("dense", 256);
    if (!(dropout_ >= 0 && dropout_ < 1)) config.fail("dropout", "must be in [0, 1)");
    if (hidden < 1) config.fail("dense", "must be positive");
    int64_t in = env.channels;
    for (const int64_t out : widths) {
      if (out < 1) config.fail("widths", "must be positive");
      convs_.push_back(Conv2d::add(*this, fmt::format("Conv_{}", convs_.size()), 3, in, out,
                                   lecun_normal(9 * in), /*with_bias=*/true));
      in = out;
    }
    pooled_ = pooled(env.height, env.width);
    if (pooled_.rows < 1 || pooled_.columns < 1) {
      config.fail("widths", fmt::format("{} average pools of 2 leave nothing of images of {}x{}",
                                        widths.size(), env.height, env.width));
    }
    const int64_t flat = pooled_.size() * in;
    hidden_ = Dense::add(*this, "Dense_0", flat, hidden, lecun_normal(flat));
    if (env.num_classes > 0) {
      head_ = Dense::add(*this, "head", hidden, env.num_classes, lecun_normal(hidden));
    }
  }

  bool takes_size(int64_t height, int64_t width) const override {
    return pooled(height, width) == pooled_;
  }

  at::Tensor forward(const at::Tensor& image, Pass& pass) override {
    at::Tensor x = image.permute({0, 3, 1, 2});
    for (size_t i = 0; i < convs_.size(); ++i) {
      x = convs_[i].relu_avg_pool(x, pass);
      if (pass.features) pass.keep(fmt::format("conv_{}", i).c_str(), x);
    }
    x = x.permute({0, 2, 3, 1}).flatten(1);  // (n, h*w*c), the order of flax
    x = dropout(at::relu(hidden_(x, pass)), dropout_, pass).to(at::kFloat);
    pass.keep("pre_logits", x);
    if (!head_.kernel.defined()) return x;
    x = head_.head(x, pass);
    pass.keep("logits", x);
    return x;
  }

 private:
  // Returns the size of the last pool's output.
  TokenGrid pooled(int64_t height, int64_t width) const {
    for (size_t i = 0; i < convs_.size(); ++i) {
      height /= 2;
      width /= 2;
    }
    return {height, width};
  }

  const double dropout_;
  TokenGrid pooled_;  // the grid of places for which hidden_ has weights
  std::vector<Conv2d> convs_;
  Dense hidden_, head_;
};

const Register<Model, Cnn> registered_cnn("cnn");

}  // namespace
}  // namespace bv
