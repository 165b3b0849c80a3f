// The op vgg_value_range. Draws no random numbers.
#include "lib/config/key_table.h"
#include "lib/input/ops/common/normalize_op.h"

namespace bv {
namespace {

const KeyTable vgg_value_range_keys(
    "pp: vgg_value_range",
    {"Subtracts a mean from each channel and divides by a standard deviation, by default those of "
     "ImageNet. It changes 'image' from any numeric type, with channels last, to float32 of the "
     "same shape. Use it with weights that were trained this way.",
     "vgg_value_range", "pp/ops_image.py get_vgg_value_range"},
    {}, mean_std_key_texts("[123.675, 116.28, 103.53]", "[58.395, 57.120000000000005, 57.375]"),
    in_out_key_texts());

class VggValueRange : public NormalizeOp {
 public:
  explicit VggValueRange(const Config& args) : NormalizeOp("vgg_value_range") {
    read_mean_std(args, {0.485 * 255, 0.456 * 255, 0.406 * 255},
                  {0.229 * 255, 0.224 * 255, 0.225 * 255});
  }
};

const Register<Op, VggValueRange> registered_vgg_value_range("vgg_value_range");

}  // namespace
}  // namespace bv
