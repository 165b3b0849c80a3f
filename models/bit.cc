// bit: a ResNet V1 (post-activation) with group normalization and weight standardization:
// big_vision's models/bit.py, class Model.
//
// Padding is TensorFlow's SAME: with stride 2 and an even size, there is one more row of zeros at
// the bottom and one more column at the right. The scale and bias of each unit's gn3 and the head's
// kernel start at zero, convolutions LeCun normal.
//
// Activations: stem, stage<i> (from 1), pre_logits_2d and logits_2d (n, h, w, c); pre_logits and
// logits (n, c).
// Parameters: conv_root/kernel, gn_root/{scale, bias},
// block<i>/unit<j>/{conv1, conv2, conv3, conv_proj}/kernel,
// block<i>/unit<j>/{gn1, gn2, gn3, gn_proj}/{scale, bias}, head/{kernel, bias}.
#include <fmt/format.h>

#include "lib/config/key_table.h"
#include "lib/model/layers.h"
#include "lib/model/layers/std_conv.h"
#include "lib/model/resnet.h"

namespace bv {
namespace {

const KeyTable bit_keys("model: bit",
                        {"A residual network (ResNet V1) with group normalization and weight "
                         "standardization, whose results do not depend on the batch size. The "
                         "published BiT weights do not fit it: use `bit_paper` for these.",
                         "depth: 50\nwidth: 1", "models/bit.py Model"},
                        {}, kResnetKeys);

struct BitUnit {
  StdConv conv1, conv2, conv3;
  GroupNorm gn1, gn2, gn3;
  StdConv conv_proj;  // of the shortcut; its kernel is undefined if the shape does not change
  GroupNorm gn_proj;

  // Maps (n, c, h, w) to (n, 4 * nmid, h', w'). Without conv_proj it reads x.sum, too.
  ResidualSum operator()(const ResidualSum& x, Pass& pass) const {
    const at::ScalarType type = compute_type(pass);
    // Both convolutions take the same tensor, so in bf16 the sum of their gradients is also bf16.
    const at::Tensor shortcut =
        conv_proj.kernel.defined() ? gn_proj(conv_proj(x.rounded, pass), at::kFloat) : x.sum;
    const at::Tensor y = gn2.relu(conv2(gn1.relu(conv1(x.rounded, pass), type), pass), type);
    return gn3.add_relu(conv3(y, pass), shortcut, type);
  }
};

class Bit : public Model {
 public:
  Bit(const Config& config, const ModelEnv& env) {
    const ResnetShape shape = read_resnet_shape(config);
    root_ = add_conv("conv_root", 7, env.channels, shape.width, 2);
    gn_root_ = add_norm("gn_root", shape.width);
    int64_t channels = shape.width;
    for (size_t i = 0; i < shape.blocks.size(); ++i) {
      const int64_t nmid = shape.width << i;
      std::vector<BitUnit> units;
      for (int64_t j = 0; j < shape.blocks[i]; ++j) {
        units_.push_back(fmt::format("block{}/unit{}/", i + 1, j + 1));
        units.push_back(
            add_unit(units_.back(), channels, nmid, /*stride=*/i > 0 && j == 0 ? 2 : 1));
        channels = 4 * nmid;
      }
      stages_.push_back(std::move(units));
    }
    if (env.num_classes > 0) head_ = Dense::add(*this, "head", channels, env.num_classes, zeros());
  }

  at::Tensor forward(const at::Tensor& image, Pass& pass) override {
    const at::Tensor stem =
        max_pool_same(gn_root_.relu(root_(image.permute({0, 3, 1, 2}), pass), compute_type(pass)));
    if (pass.wants("stem")) pass.keep("stem", channels_last_view(stem.to(at::kFloat)));
    ResidualSum x{{}, stem};  // the first unit has a conv_proj, so it needs no float32
    int unit_number = 0;
    for (size_t i = 0; i < stages_.size(); ++i) {
      for (const BitUnit& unit : stages_[i]) {
        pass.enter(unit_number, x.rounded);
        x = unit(x, pass);
        pass.leave(unit_number++, x.sum);
      }
      if (pass.features) {
        pass.keep(fmt::format("stage{}", i + 1).c_str(), channels_last_view(x.sum));
      }
    }
    return resnet_head(x.sum, head_, pass);
  }
  std::vector<std::string> units() const override { return units_; }

 private:
  StdConv add_conv(const std::string& name, int64_t size, int64_t in, int64_t out, int64_t stride) {
    return StdConv::add(*this, name, size, in, out, stride, StdConv::Rule::bit,
                        StdConv::Padding::same);
  }
  GroupNorm add_norm(const std::string& name, int64_t channels) {
    return GroupNorm::add(*this, name, channels, kResnetGroups);
  }

  BitUnit add_unit(const std::string& name, int64_t in, int64_t nmid, int64_t stride) {
    const int64_t out = 4 * nmid;
    BitUnit unit;
    unit.conv1 = add_conv(name + "conv1", 1, in, nmid, 1);
    unit.gn1 = add_norm(name + "gn1", nmid);
    unit.conv2 = add_conv(name + "conv2", 3, nmid, nmid, stride);
    unit.gn2 = add_norm(name + "gn2", nmid);
    unit.conv3 = add_conv(name + "conv3", 1, nmid, out, 1);
    unit.gn3 = {add_parameter(name + "gn3/scale", {out}, zeros()),
                add_parameter(name + "gn3/bias", {out}, zeros()), kResnetGroups};
    if (in == out && stride == 1) return unit;
    unit.conv_proj = add_conv(name + "conv_proj", 1, in, out, stride);
    unit.gn_proj = add_norm(name + "gn_proj", out);
    return unit;
  }

  StdConv root_;
  GroupNorm gn_root_;
  std::vector<std::vector<BitUnit>> stages_;
  std::vector<std::string> units_;
  Dense head_;
};

const Register<Model, Bit> registered_bit("bit");
const RegisterVariants bit_variants("bit", resnet_variants());

}  // namespace
}  // namespace bv
