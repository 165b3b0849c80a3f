// Writes mlp_mixer for timm.models.mlp_mixer.MlpMixer. The class needs the argument act_layer =
// GELUTanh.
#include <nlohmann/json.hpp>

#include "lib/ckpt/layouts/layouts.h"
#include "lib/export/timm_file.h"
#include "lib/export/weights_writer.h"

namespace bv {
namespace {

class TimmMixer : public WeightsWriter {
 public:
  TimmMixer(const Config&, const TrainedModel& trained)
      : trained_(trained), patch_(trained_parameter(trained, "stem/kernel").sizes().vec()) {
    const ImageSize image = known_image(trained, trained_parameter(trained, "stem/kernel"));
    if (image.height % patch_[0] != 0 || image.width % patch_[1] != 0) {
      throw Error(Exit::usage, "--format timm",
                  fmt::format("images of {}x{} are padded to whole patches of {}x{}, which timm's "
                              "MlpMixer does not do; use npz, safetensors or onnx",
                              image.height, image.width, patch_[0], patch_[1]));
    }
  }

  void write(const std::string& output) const override {
    const int64_t width = patch_[3];
    int64_t blocks = 0;
    while (trained_.params.count(fmt::format("MixerBlock_{}/LayerNorm_0/scale", blocks))) ++blocks;
    const auto hidden = [&](const char* mlp) {
      const std::string name = fmt::format("MixerBlock_0/{}/Dense_0/bias", mlp);
      return trained_parameter(trained_, name).size(0);
    };
    const auto head = trained_.params.find("head/bias");
    write_timm(output, trained_, to_timm_mixer(trained_.params), "MlpMixer",
               {{"img_size", {trained_.image.height, trained_.image.width}},
                {"patch_size", {patch_[0], patch_[1]}},
                {"in_chans", patch_[2]},
                {"num_classes", head == trained_.params.end() ? 0 : head->second.size(0)},
                {"num_blocks", blocks},
                {"embed_dim", width},
                {"mlp_ratio",
                 {timm_ratio(hidden("token_mixing"), width),
                  timm_ratio(hidden("channel_mixing"), width)}}});
  }

 private:
  const TrainedModel trained_;
  const std::vector<int64_t> patch_;  // rows, columns, channels, width
};

const Register<WeightsWriter, TimmMixer> registered_timm_mlp_mixer("timm/mlp_mixer");

}  // namespace
}  // namespace bv
