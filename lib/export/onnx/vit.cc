// vit as an ONNX graph (models/vit.cc, reference 9.1).
#include "lib/export/vit_weights.h"
#include "lib/export/writer.h"

namespace bv {
namespace {

class OnnxVit : public WeightsWriter {
 public:
  OnnxVit(const Config& model, const Trained& trained) : vit_(vit_weights(model, trained)) {}
  void write(const std::string& output) const override { write_vit_onnx(vit_, output); }

 private:
  const VitWeights vit_;
};

const Register<WeightsWriter, OnnxVit> registered("onnx/vit");

}  // namespace
}  // namespace bv
