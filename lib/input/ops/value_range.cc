// The op value_range. Draws no random numbers.
#include <algorithm>

#include "lib/config/key_table.h"
#include "lib/input/image/normalize.h"
#include "lib/input/ops/common/normalize_op.h"

namespace bv {
namespace {

const KeyTable value_range_keys(
    "pp: value_range",
    {"Scales numbers linearly so that in_min becomes vmin and in_max becomes vmax. It changes "
     "'image' from any numeric type, with channels last, to float32 of the same shape. It usually "
     "maps pixels, 0 to 255, to the input range of a model.",
     "value_range(-1, 1)", "pp/ops_general.py get_value_range"},
    {{"vmin", "float", "-1", "The result for an input of in_min. Most models take -1, some 0."},
     {"vmax", "float", "1",
      "The result for an input of in_max. If clip_values is True, it must not be below vmin."},
     {"in_min", "float | list of float", "0",
      "The input that becomes vmin: one number for all channels, or a list with one for each.",
      "[0, 0, 10]"},
     {"in_max", "float | list of float", "255",
      "The input that becomes vmax: one number for all channels, or a list with one for each. "
      "It must differ from in_min. Give 1 for images that are already from 0 to 1.",
      "[255, 255, 200]"},
     {"clip_values", "bool", "false",
      "If True, results are clipped to vmin and vmax. It matters only if inputs lie outside in_min "
      "to in_max."}},
    in_out_key_texts());

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

const Register<Op, ValueRange> registered_value_range("value_range");

}  // namespace
}  // namespace bv
