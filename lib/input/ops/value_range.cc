// value_range(vmin=-1, vmax=1, in_min=0, in_max=255, clip_values=False): scales values from
// [in_min, in_max] to [vmin, vmax].
//   in_min, in_max  a number or one number per channel
//   clip_values     clips the results to [vmin, vmax]
// Keys: key, or inkey and outkey; "image" by default. Takes any real dtype, with the channels last;
// gives float32 of the same shape. Draws nothing.
// Follows big_vision's pp/ops_general.py `get_value_range`.
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
    normalization_.clip = args.get<bool>("clip_values", false);
    keys_ = InOutKeys(args);
    normalization_.scale = static_cast<float>(vmax - vmin);
    normalization_.offset = normalization_.clip_min = static_cast<float>(vmin);
    normalization_.clip_max = static_cast<float>(vmax);
    if (vmin > vmax && normalization_.clip)
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
      normalization_.low.push_back(low);
      normalization_.range.push_back(range);
    }
  }
};

const Register<Op, ValueRange> registered("value_range");

}  // namespace
}  // namespace bv
