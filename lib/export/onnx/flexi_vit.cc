// flexi_vit as an ONNX graph, cut into patches as the run's `seqhw` says (reference 9.6).
#include "lib/export/vit_weights.h"
#include "lib/export/writer.h"

namespace bv {
namespace {

class OnnxFlexiVit : public WeightsWriter {
 public:
  OnnxFlexiVit(const Config& model, const Trained& trained)
      : vit_(flexi_vit_weights(model, trained)) {}
  void write(const std::string& output) const override { write_vit_onnx(vit_, output); }

 private:
  const VitWeights vit_;
};

const Register<WeightsWriter, OnnxFlexiVit> registered("onnx/flexi_vit");
const Register<WeightsWriter, OnnxFlexiVit> registered_seed_name("onnx/proj.flexi.vit");

}  // namespace
}  // namespace bv
