// Writes cnn (models/cnn.cc) as an ONNX graph.
#include "lib/export/onnx_layers.h"

namespace bv {
namespace {

class OnnxCnn : public WeightsWriter {
 public:
  OnnxCnn(const Config&, const TrainedModel& trained) : trained_(trained) {}

  void write(const std::string& output) const override {
    using Padding = OnnxLayers::Padding;
    const bool convolves = trained_.params.count("Conv_0/kernel") > 0;  // `widths` may be empty
    OnnxLayers net(trained_, convolves ? known_image(trained_, trained_.params.at("Conv_0/kernel"))
                                       : trained_.image);
    OnnxLayers::Plane x = net.image();
    for (int i = 0; net.has(fmt::format("Conv_{}/kernel", i)); ++i) {
      const std::string name = fmt::format("Conv_{}", i);
      x = net.relu(net.conv(x, name, net.tensor(name + "/kernel"), {1, 1}, Padding::same,
                            OnnxLayers::Bias::added));
      x = net.pool("AveragePool", x, 2, 2, Padding::valid);
    }
    const OnnxLayers::Value flat =
        net.reshape(net.transpose(x.value, {0, 2, 3, 1}), {0, x.height * x.width * x.channels});
    const OnnxLayers::Value hidden =
        net.graph().node("Relu", {net.dense(flat, "Dense_0", x.height * x.width * x.channels)});
    net.write(output, hidden, {-1, net.tensor("Dense_0/bias").numel()});
  }

 private:
  const TrainedModel trained_;
};

const Register<WeightsWriter, OnnxCnn> registered_onnx_cnn("onnx/cnn");

}  // namespace
}  // namespace bv
