// value_range: values from [in_min, in_max] to [vmin, vmax], as float32. pp: "value_range(-1, 1)",
// "value_range(0, 1, in_min=[0, 10, 20], in_max=[255, 200, 100], clip_values=True)"
// Reference section 12.2.
#include <algorithm>

#include "lib/input/image/normalize.h"
#include "lib/input/ops/common/normalize_op.h"

namespace bv {
namespace {

class ValueRange : public NormalizeOp {
 public:
  explicit ValueRange(const Config& args) : NormalizeOp("value_range") {
    const auto vmin = args.get<double>("vmin", -1);
    const auto vmax = args.get<double>("vmax", 1);
    std::vector<double> in_min = numbers(args, "in_min", {0.0});
    std::vector<double> in_max = numbers(args, "in_max", {255.0});
    how_.clip = args.get<bool>("clip_values", false);
    keys_ = InOut(args);
    how_.scale = static_cast<float>(vmax - vmin);
    how_.offset = how_.clip_min = static_cast<float>(vmin);
    how_.clip_max = static_cast<float>(vmax);
    if (vmin > vmax && how_.clip)
      args.fail("vmax", fmt::format("must be at least vmin = {} to clip, got {}", vmin, vmax));

    const size_t channels = std::max(in_min.size(), in_max.size());
    if (in_min.size() == 1) in_min.resize(channels, in_min[0]);
    if (in_max.size() == 1) in_max.resize(channels, in_max[0]);
    if (in_min.size() != in_max.size()) {
      args.fail("in_max", fmt::format("must have as many numbers as in_min ({}), got {}",
                                      in_min.size(), in_max.size()));
    }
    for (size_t c = 0; c < channels; ++c) {
      const auto low = static_cast<float>(in_min[c]);
      const float range = static_cast<float>(in_max[c]) - low;
      if (range == 0)
        args.fail("in_max", fmt::format("must differ from in_min, got {} for both", in_max[c]));
      how_.low.push_back(low);
      how_.range.push_back(range);
    }
  }
};

const Register<Op, ValueRange> registered("value_range");

}  // namespace
}  // namespace bv
