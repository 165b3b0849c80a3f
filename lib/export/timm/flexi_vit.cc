// Writes flexi_vit for timm's VisionTransformer: see lib/export/vit_timm.cc.
#include "lib/export/vit_weights.h"
#include "lib/export/weights_writer.h"

namespace bv {
namespace {

class TimmFlexiVit : public WeightsWriter {
 public:
  TimmFlexiVit(const Config& model, const TrainedModel& trained)
      : vit_(flexi_vit_weights(model, trained)) {}
  void write(const std::string& output) const override { write_vit_timm(vit_, output); }

 private:
  const VitWeights vit_;
};

const Register<WeightsWriter, TimmFlexiVit> registered_timm_flexi_vit("timm/flexi_vit");
const Register<WeightsWriter, TimmFlexiVit> registered_timm_flexi_vit_full_name(
    "timm/proj.flexi.vit");

}  // namespace
}  // namespace bv
