// Writes mlp_mixer (models/mlp_mixer.cc) as an ONNX graph.
#include "lib/export/onnx_layers.h"

namespace bv {
namespace {

class OnnxMixer : public WeightsWriter {
 public:
  OnnxMixer(const Config&, const TrainedModel& trained) : trained_(trained) {}

  void write(const std::string& output) const override {
    const at::Tensor& kernel = trained_parameter(trained_, "stem/kernel");
    OnnxLayers net(trained_, known_image(trained_, kernel));
    const OnnxLayers::Plane stem =
        net.conv(net.image(), "stem", kernel, {kernel.size(0), kernel.size(1)},
                 OnnxLayers::Padding::same, OnnxLayers::Bias::added);
    const int64_t width = stem.channels, tokens = stem.height * stem.width;
    OnnxLayers::Value x =  // (n, tokens, width)
        net.transpose(net.reshape(stem.value, {0, width, tokens}), {0, 2, 1});
    for (int i = 0; net.has(fmt::format("MixerBlock_{}/LayerNorm_0/scale", i)); ++i) {
      const std::string block = fmt::format("MixerBlock_{}/", i);
      OnnxLayers::Value y = net.transpose(net.layer_norm(x, block + "LayerNorm_0"), {0, 2, 1});
      y = net.mlp(y, block + "token_mixing", tokens);
      x = net.add(x, net.transpose(y, {0, 2, 1}));
      y = net.layer_norm(x, block + "LayerNorm_1");
      x = net.add(x, net.mlp(y, block + "channel_mixing", width));
    }
    x = net.reduce("ReduceMean", net.layer_norm(x, "pre_head_layer_norm"), {1});
    net.write(output, x, {-1, width});
  }

 private:
  const TrainedModel trained_;
};

const Register<WeightsWriter, OnnxMixer> registered_onnx_mlp_mixer("onnx/mlp_mixer");

}  // namespace
}  // namespace bv
