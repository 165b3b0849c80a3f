// Writes bit_paper for timm.models.resnetv2.ResNetV2. The class needs the argument conv_layer =
// partial(StdConv2d, eps=1e-10). stem_type keeps its default: the one of timm's resnetv2_*_bit pads
// with zeros before max pooling.
#include <nlohmann/json.hpp>

#include "lib/ckpt/layouts/layouts.h"
#include "lib/export/timm_file.h"
#include "lib/export/weights_writer.h"

namespace bv {
namespace {

class TimmBitPaper : public WeightsWriter {
 public:
  TimmBitPaper(const Config&, const TrainedModel& trained) : trained_(trained) {}

  void write(const std::string& output) const override {
    const at::Tensor& root = trained_parameter(trained_, "root_block/conv_root/kernel");
    std::vector<int64_t> layers, channels;  // of each stage
    const auto last = [&](int64_t unit) {
      const auto found = trained_.params.find(
          fmt::format("block{}/unit{:02}/conv3/kernel", layers.size() + 1, unit));
      return found == trained_.params.end() ? nullptr : &found->second;
    };
    while (const at::Tensor* kernel = last(1)) {
      int64_t units = 1;
      while (last(units + 1)) ++units;
      channels.push_back(kernel->size(3));
      layers.push_back(units);
    }
    const auto head = trained_.params.find("head/bias");
    // With a smaller output_stride timm would dilate the last stages instead of striding.
    const int64_t stride = std::max<int64_t>(32, int64_t{2} << layers.size());
    write_timm(output, trained_, to_timm_bit(trained_.params), "ResNetV2",
               {{"layers", layers},
                {"channels", channels},
                {"num_classes", head == trained_.params.end() ? 0 : head->second.size(0)},
                {"in_chans", root.size(2)},
                {"stem_chs", root.size(3)},
                {"output_stride", stride}});
  }

 private:
  const TrainedModel trained_;
};

const Register<WeightsWriter, TimmBitPaper> registered_timm_bit_paper("timm/bit_paper");

}  // namespace
}  // namespace bv
