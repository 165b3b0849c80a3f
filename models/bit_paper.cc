// bit_paper: the ResNet V2 (pre-activation) with group normalization and weight standardization
// from "Big Transfer" (Kolesnikov et al., 2020), for which the BiT weights were published:
// big_vision's models/bit_paper.py, class Model.
//
// Padding is the same on each side. Convolutions start LeCun normal.
//
// Activations: stem, stage<i>/unit<NN> (from 1 and 01), norm_pre_head, pre_logits_2d and logits_2d
// (n, h, w, c); pre_logits and logits (n, c).
// Parameters: root_block/conv_root/kernel,
// block<i>/unit<NN>/{conv1, conv2, conv3, conv_proj}/kernel,
// block<i>/unit<NN>/{gn1, gn2, gn3}/{scale, bias}, norm-pre-head/{scale, bias},
// head/{kernel, bias}.
#include <ATen/TensorOperators.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>
#include <fmt/format.h>

#include "lib/config/key_table.h"
#include "lib/model/layers.h"
#include "lib/model/layers/std_conv.h"
#include "lib/model/resnet.h"

namespace bv {
namespace {

constexpr KeyText kHeadKeys[] = {kHeadZeroinit};
const KeyTable bit_paper_keys(
    "model: bit_paper",
    {"The residual network (ResNet V2) of \"Big Transfer\" (Kolesnikov et al., 2020), for which "
     "the BiT weights were published. It has group normalization and weight standardization, so "
     "its results do not depend on the batch size.",
     "depth: 50\nwidth: 3", "models/bit_paper.py Model"},
    {}, kResnetKeys, kHeadKeys);

// Group normalization with eps 1e-5 and the parameter shapes of the published weights.
struct PaperNorm {
  at::Tensor scale, bias;  // (1, 1, 1, c)

  GroupNorm norm() const { return {scale.flatten(), bias.flatten(), kResnetGroups, 1e-5}; }
};

struct BitPaperUnit {
  PaperNorm gn1, gn2, gn3;
  StdConv conv1, conv2, conv3;
  StdConv conv_proj;  // of the shortcut; its kernel is undefined if the shape does not change

  // Maps (n, c, h, w) float32 to (n, 4 * nmid, h', w') float32.
  at::Tensor operator()(const at::Tensor& x, Pass& pass) const {
    const at::ScalarType type = compute_type(pass);
    at::Tensor y = gn1.norm().relu(x, type);
    const at::Tensor shortcut = conv_proj.kernel.defined() ? conv_proj(y, pass) : x;
    y = gn2.norm().relu(conv1(y, pass), type);
    y = gn3.norm().relu(conv2(y, pass), type);
    return shortcut.to(at::kFloat) + conv3(y, pass);
  }
};

class BitPaper : public Model {
 public:
  BitPaper(const Config& config, const ModelEnv& env) {
    const ResnetShape shape = read_resnet_shape(config);
    root_ = add_conv("root_block/conv_root", 7, env.channels, shape.width, 2);
    int64_t channels = shape.width;
    for (size_t i = 0; i < shape.blocks.size(); ++i) {
      const int64_t nmid = shape.width << i;
      std::vector<BitPaperUnit> units;
      for (int64_t j = 0; j < shape.blocks[i]; ++j) {
        units_.push_back(fmt::format("block{}/unit{:02}/", i + 1, j + 1));
        units.push_back(
            add_unit(units_.back(), channels, nmid, /*stride=*/i > 0 && j == 0 ? 2 : 1));
        channels = 4 * nmid;
      }
      stages_.push_back(std::move(units));
    }
    norm_ = add_norm("norm-pre-head", channels);
    const bool zero = config.get<bool>("head_zeroinit", true);
    if (env.num_classes > 0) {
      head_ = Dense::add(*this, "head", channels, env.num_classes,
                         zero ? zeros() : lecun_normal(channels));
    }
  }

  at::Tensor forward(const at::Tensor& image, Pass& pass) override {
    at::Tensor x = root_(image.permute({0, 3, 1, 2}), pass);
    x = at::max_pool2d(x, {3, 3}, {2, 2}, /*padding=*/{1, 1}).to(at::kFloat);
    pass.keep("stem", channels_last_view(x));
    int unit_number = 0;
    for (size_t i = 0; i < stages_.size(); ++i) {
      for (size_t j = 0; j < stages_[i].size(); ++j) {
        pass.enter(unit_number, x);
        x = stages_[i][j](x, pass);
        pass.leave(unit_number++, x);
        if (pass.features) {
          pass.keep(fmt::format("stage{}/unit{:02}", i + 1, j + 1).c_str(), channels_last_view(x));
        }
      }
    }
    x = norm_.norm()(x, at::kFloat);
    pass.keep("norm_pre_head", channels_last_view(x));
    return resnet_head(at::relu(x), head_, pass);
  }
  std::vector<std::string> units() const override { return units_; }

 private:
  StdConv add_conv(const std::string& name, int64_t size, int64_t in, int64_t out, int64_t stride) {
    return StdConv::add(*this, name, size, in, out, stride, StdConv::Rule::bit_paper,
                        StdConv::Padding::symmetric);
  }
  PaperNorm add_norm(const std::string& name, int64_t channels) {
    return {add_parameter(name + "/scale", {1, 1, 1, channels}, ones()),
            add_parameter(name + "/bias", {1, 1, 1, channels}, zeros())};
  }

  BitPaperUnit add_unit(const std::string& name, int64_t in, int64_t nmid, int64_t stride) {
    const int64_t out = 4 * nmid;
    BitPaperUnit unit;
    unit.gn1 = add_norm(name + "gn1", in);
    if (in != out || stride != 1) {
      unit.conv_proj = add_conv(name + "conv_proj", 1, in, out, stride);
    }
    unit.conv1 = add_conv(name + "conv1", 1, in, nmid, 1);
    unit.gn2 = add_norm(name + "gn2", nmid);
    unit.conv2 = add_conv(name + "conv2", 3, nmid, nmid, stride);
    unit.gn3 = add_norm(name + "gn3", nmid);
    unit.conv3 = add_conv(name + "conv3", 1, nmid, out, 1);
    return unit;
  }

  StdConv root_;
  std::vector<std::vector<BitPaperUnit>> stages_;
  std::vector<std::string> units_;
  PaperNorm norm_;
  Dense head_;
};

const Register<Model, BitPaper> registered_bit_paper("bit_paper");
const RegisterVariants bit_paper_variants("bit_paper", resnet_variants());

}  // namespace
}  // namespace bv
