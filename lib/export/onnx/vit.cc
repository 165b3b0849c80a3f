// Writes vit (models/vit.cc) as an ONNX graph: see lib/export/vit_onnx.cc.
#include "lib/export/vit_weights.h"
#include "lib/export/weights_writer.h"

namespace bv {
namespace {

class OnnxVit : public WeightsWriter {
 public:
  OnnxVit(const Config& model, const TrainedModel& trained) : vit_(vit_weights(model, trained)) {}
  void write(const std::string& output) const override { write_vit_onnx(vit_, output); }

 private:
  const VitWeights vit_;
};

const Register<WeightsWriter, OnnxVit> registered_onnx_vit("onnx/vit");

}  // namespace
}  // namespace bv
