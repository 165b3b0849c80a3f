// Writes resnet_cifar (models/resnet_cifar.cc) as an ONNX graph. Batch normalization uses the
// running statistics.
#include "lib/export/onnx_layers.h"
#include "lib/model/layers.h"

namespace bv {
namespace {

constexpr auto kSame = OnnxLayers::Padding::same;
constexpr int64_t kGroupSize = 16;  // norm: group

OnnxLayers::Plane conv_norm(OnnxLayers& net, const OnnxLayers::Plane& x, const std::string& conv,
                            const std::string& norm, bool batch_norm) {
  const OnnxLayers::Plane y =
      net.conv(x, conv, net.tensor(conv + "/kernel"), {1, 1}, kSame, OnnxLayers::Bias::none);
  if (batch_norm) return net.relu(net.batch_norm(y, norm, static_cast<float>(BatchNorm::kEps)));
  return net.relu(net.group_norm(y, norm, y.channels / kGroupSize, 1e-6F));
}

class OnnxResnetCifar : public WeightsWriter {
 public:
  OnnxResnetCifar(const Config& model, const TrainedModel& trained)
      : batch_norm_(model.word("norm", "batch", {"batch", "group"}) == "batch"),
        whitening_(model.get<int64_t>("whitening", 0) > 0),
        logit_scale_(static_cast<float>(model.get<double>("logit_scale", 0.125))),
        trained_(trained) {}

  void write(const std::string& output) const override {
    const at::Tensor first = whitening_ ? trained_buffer(trained_, "prep/kernel")
                                        : trained_parameter(trained_, "prep/conv/kernel");
    OnnxLayers net(trained_, known_image(trained_, first));
    const auto layer = [&](const OnnxLayers::Plane& x, const std::string& path,
                           const char* number) {
      return conv_norm(net, x, path + "conv" + number, path + "norm" + number, batch_norm_);
    };
    OnnxLayers::Plane x =
        whitening_
            ? net.relu(net.conv(net.image(), "prep", first, {1, 1}, kSame, OnnxLayers::Bias::added))
            : layer(net.image(), "prep/", "");
    for (int i = 1; net.has(fmt::format("stage{}/conv/kernel", i)); ++i) {
      const std::string stage = fmt::format("stage{}/", i);
      x = net.pool("MaxPool", layer(x, stage, ""), 2, 2, OnnxLayers::Padding::valid);
      if (net.has(stage + "conv2/kernel")) x = layer(x, stage, "2");
      for (int j = 1; net.has(fmt::format("{}block{}/conv1/kernel", stage, j)); ++j) {
        const std::string block = fmt::format("{}block{}/", stage, j);
        x = net.add(x, layer(layer(x, block, "1"), block, "2"));
      }
    }
    net.write(output, net.reduce("ReduceMax", x.value, {2, 3}), {-1, x.channels}, logit_scale_);
  }

 private:
  const bool batch_norm_, whitening_;
  const float logit_scale_;
  const TrainedModel trained_;
};

const Register<WeightsWriter, OnnxResnetCifar> registered_onnx_resnet_cifar("onnx/resnet_cifar");

}  // namespace
}  // namespace bv
