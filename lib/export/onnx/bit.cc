// Writes bit (models/bit.cc) as an ONNX graph. Kernels are standardized before they are written.
#include "lib/export/onnx_layers.h"
#include "lib/model/layers/std_conv.h"
#include "lib/model/resnet.h"

namespace bv {
namespace {

OnnxLayers::Plane bit_conv(OnnxLayers& net, const OnnxLayers::Plane& x, const std::string& name,
                           int64_t stride) {
  return net.conv(x, name, standardize(net.tensor(name + "/kernel"), StdConv::Rule::bit),
                  {stride, stride}, OnnxLayers::Padding::same, OnnxLayers::Bias::none);
}

OnnxLayers::Plane norm(OnnxLayers& net, const OnnxLayers::Plane& x, const std::string& name) {
  return net.group_norm(x, name, kResnetGroups, 1e-6F);
}

OnnxLayers::Plane bit_unit(OnnxLayers& net, const OnnxLayers::Plane& x, const std::string& name,
                           int64_t stride) {
  OnnxLayers::Plane shortcut = x;
  if (net.has(name + "conv_proj/kernel")) {
    shortcut = norm(net, bit_conv(net, x, name + "conv_proj", stride), name + "gn_proj");
  }
  OnnxLayers::Plane y = net.relu(norm(net, bit_conv(net, x, name + "conv1", 1), name + "gn1"));
  y = net.relu(norm(net, bit_conv(net, y, name + "conv2", stride), name + "gn2"));
  y = norm(net, bit_conv(net, y, name + "conv3", 1), name + "gn3");
  return net.relu(net.add(shortcut, y));
}

class OnnxBit : public WeightsWriter {
 public:
  OnnxBit(const Config&, const TrainedModel& trained) : trained_(trained) {}

  void write(const std::string& output) const override {
    OnnxLayers net(trained_,
                   known_image(trained_, trained_parameter(trained_, "conv_root/kernel")));
    OnnxLayers::Plane x = bit_conv(net, net.image(), "conv_root", 2);
    x = net.pool("MaxPool", net.relu(norm(net, x, "gn_root")), 3, 2, OnnxLayers::Padding::same);
    for (int i = 1; net.has(fmt::format("block{}/unit1/conv1/kernel", i)); ++i) {
      for (int j = 1; net.has(fmt::format("block{}/unit{}/conv1/kernel", i, j)); ++j) {
        x = bit_unit(net, x, fmt::format("block{}/unit{}/", i, j),
                     /*stride=*/i > 1 && j == 1 ? 2 : 1);
      }
    }
    net.write(output, net.reduce("ReduceMean", x.value, {2, 3}), {-1, x.channels});
  }

 private:
  const TrainedModel trained_;
};

const Register<WeightsWriter, OnnxBit> registered_onnx_bit("onnx/bit");

}  // namespace
}  // namespace bv
