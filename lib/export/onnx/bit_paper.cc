// Writes bit_paper (models/bit_paper.cc) as an ONNX graph. Kernels are standardized before they are
// written.
#include "lib/export/onnx_layers.h"
#include "lib/model/layers/std_conv.h"
#include "lib/model/resnet.h"

namespace bv {
namespace {

constexpr auto kSymmetric = OnnxLayers::Padding::symmetric;

OnnxLayers::Plane bit_paper_conv(OnnxLayers& net, const OnnxLayers::Plane& x,
                                 const std::string& name, int64_t stride) {
  return net.conv(x, name, standardize(net.tensor(name + "/kernel"), StdConv::Rule::bit_paper),
                  {stride, stride}, kSymmetric, OnnxLayers::Bias::none);
}

OnnxLayers::Plane norm_relu(OnnxLayers& net, const OnnxLayers::Plane& x, const std::string& name) {
  return net.relu(net.group_norm(x, name, kResnetGroups, 1e-5F));
}

OnnxLayers::Plane bit_paper_unit(OnnxLayers& net, const OnnxLayers::Plane& x,
                                 const std::string& name, int64_t stride) {
  OnnxLayers::Plane y = norm_relu(net, x, name + "gn1");
  OnnxLayers::Plane shortcut = x;
  if (net.has(name + "conv_proj/kernel"))
    shortcut = bit_paper_conv(net, y, name + "conv_proj", stride);
  y = norm_relu(net, bit_paper_conv(net, y, name + "conv1", 1), name + "gn2");
  y = norm_relu(net, bit_paper_conv(net, y, name + "conv2", stride), name + "gn3");
  return net.add(shortcut, bit_paper_conv(net, y, name + "conv3", 1));
}

class OnnxBitPaper : public WeightsWriter {
 public:
  OnnxBitPaper(const Config&, const TrainedModel& trained) : trained_(trained) {}

  void write(const std::string& output) const override {
    const std::string root = "root_block/conv_root";
    OnnxLayers net(trained_, known_image(trained_, trained_parameter(trained_, root + "/kernel")));
    OnnxLayers::Plane x =
        net.pool("MaxPool", bit_paper_conv(net, net.image(), root, 2), 3, 2, kSymmetric);
    for (int i = 1; net.has(fmt::format("block{}/unit01/conv1/kernel", i)); ++i) {
      for (int j = 1; net.has(fmt::format("block{}/unit{:02}/conv1/kernel", i, j)); ++j) {
        x = bit_paper_unit(net, x, fmt::format("block{}/unit{:02}/", i, j),
                           /*stride=*/i > 1 && j == 1 ? 2 : 1);
      }
    }
    x = norm_relu(net, x, "norm-pre-head");
    net.write(output, net.reduce("ReduceMean", x.value, {2, 3}), {-1, x.channels});
  }

 private:
  const TrainedModel trained_;
};

const Register<WeightsWriter, OnnxBitPaper> registered_onnx_bit_paper("onnx/bit_paper");

}  // namespace
}  // namespace bv
