// The op clip_value_range. Draws no random numbers.
#include "lib/config/key_table.h"
#include "lib/input/ops/common/normalize_op.h"

namespace bv {
namespace {

const KeyTable clip_value_range_keys(
    "pp: clip_value_range",
    {"Subtracts a mean from each channel and divides by a standard deviation, by default those of "
     "CLIP's training images. It changes 'image' from any numeric type, with channels last, to "
     "float32 of the same shape. Use it with weights that were trained this way.",
     "clip_value_range", "pp/ops_image.py get_clip_value_range"},
    {},
    mean_std_key_texts("[122.7709383, 116.7460125, 104.09373615000001]",
                       "[68.5005327, 66.6321579, 70.32316304999999]"),
    in_out_key_texts());

class ClipValueRange : public NormalizeOp {
 public:
  explicit ClipValueRange(const Config& args) : NormalizeOp("clip_value_range") {
    read_mean_std(args, {0.48145466 * 255, 0.4578275 * 255, 0.40821073 * 255},
                  {0.26862954 * 255, 0.26130258 * 255, 0.27577711 * 255});
  }
};

const Register<Op, ClipValueRange> registered_clip_value_range("clip_value_range");

}  // namespace
}  // namespace bv
