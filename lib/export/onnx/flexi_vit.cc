// Writes flexi_vit (models/flexi_vit.cc) as an ONNX graph, with the patch size that follows from
// the config's `seqhw`.
#include "lib/export/vit_weights.h"
#include "lib/export/weights_writer.h"

namespace bv {
namespace {

class OnnxFlexiVit : public WeightsWriter {
 public:
  OnnxFlexiVit(const Config& model, const TrainedModel& trained)
      : vit_(flexi_vit_weights(model, trained)) {}
  void write(const std::string& output) const override { write_vit_onnx(vit_, output); }

 private:
  const VitWeights vit_;
};

const Register<WeightsWriter, OnnxFlexiVit> registered_onnx_flexi_vit("onnx/flexi_vit");
const Register<WeightsWriter, OnnxFlexiVit> registered_onnx_flexi_vit_full_name(
    "onnx/proj.flexi.vit");

}  // namespace
}  // namespace bv
