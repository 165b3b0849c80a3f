// Writes vit for timm's VisionTransformer: see lib/export/vit_timm.cc.
#include "lib/export/vit_weights.h"
#include "lib/export/weights_writer.h"

namespace bv {
namespace {

class TimmVit : public WeightsWriter {
 public:
  TimmVit(const Config& model, const TrainedModel& trained) : vit_(vit_weights(model, trained)) {}
  void write(const std::string& output) const override { write_vit_timm(vit_, output); }

 private:
  const VitWeights vit_;
};

const Register<WeightsWriter, TimmVit> registered_timm_vit("timm/vit");

}  // namespace
}  // namespace bv
