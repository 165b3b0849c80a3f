// Writes bit (models/bit.cc) as an ONNX graph. Kernels are standardised before they are written.
#include "lib/export/onnx_layers.h"
#include "lib/model/layers/std_conv.h"
#include "lib/model/resnet.h"

namespace bv {
namespace {

using Plane = OnnxLayers::Plane;
constexpr auto kSame = OnnxLayers::Padding::same;

Plane conv(OnnxLayers& net, const Plane& x, const std::string& name, int64_t stride) {
  return net.conv(x, name, standardize(net.tensor(name + "/kernel"), StdConv::Rule::bit),
                  {stride, stride}, kSame, OnnxLayers::Bias::none);
}

Plane norm(OnnxLayers& net, const Plane& x, const std::string& name) {
  return net.group_norm(x, name, kResnetGroups, 1e-6F);
}

Plane unit(OnnxLayers& net, const Plane& x, const std::string& name, int64_t stride) {
  Plane shortcut = x;
  if (net.has(name + "conv_proj/kernel")) {
    shortcut = norm(net, conv(net, x, name + "conv_proj", stride), name + "gn_proj");
  }
  Plane y = net.relu(norm(net, conv(net, x, name + "conv1", 1), name + "gn1"));
  y = net.relu(norm(net, conv(net, y, name + "conv2", stride), name + "gn2"));
  y = norm(net, conv(net, y, name + "conv3", 1), name + "gn3");
  return net.relu(net.add(shortcut, y));
}

class OnnxBit : public WeightsWriter {
 public:
  OnnxBit(const Config&, const TrainedModel& trained) : trained_(trained) {}

  void write(const std::string& output) const override {
    OnnxLayers net(trained_,
                   known_image(trained_, trained_parameter(trained_, "conv_root/kernel")));
    Plane x = conv(net, net.image(), "conv_root", 2);
    x = net.pool("MaxPool", net.relu(norm(net, x, "gn_root")), 3, 2, kSame);
    for (int i = 1; net.has(fmt::format("block{}/unit1/conv1/kernel", i)); ++i) {
      for (int j = 1; net.has(fmt::format("block{}/unit{}/conv1/kernel", i, j)); ++j) {
        x = unit(net, x, fmt::format("block{}/unit{}/", i, j), /*stride=*/i > 1 && j == 1 ? 2 : 1);
      }
    }
    net.write(output, net.reduce("ReduceMean", x.value, {2, 3}), {-1, x.channels});
  }

 private:
  const TrainedModel trained_;
};

const Register<WeightsWriter, OnnxBit> registered("onnx/bit");

}  // namespace
}  // namespace bv
