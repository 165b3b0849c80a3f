// vgg_value_range(mean=..., std=...): (x - mean) / std with ImageNet's statistics.
//   mean, std  a number or one number per channel, for values in 0..255
// Keys: key, or inkey and outkey; "image" by default. Takes any real dtype, with the channels last;
// gives float32 of the same shape. Draws nothing.
// Follows big_vision's pp/ops_image.py `get_vgg_value_range`.
#include "lib/input/ops/common/normalize_op.h"

namespace bv {
namespace {

class VggValueRange : public NormalizeOp {
 public:
  explicit VggValueRange(const Config& args) : NormalizeOp("vgg_value_range") {
    read_mean_std(args, {0.485 * 255, 0.456 * 255, 0.406 * 255},
                  {0.229 * 255, 0.224 * 255, 0.225 * 255});
  }
};

const Register<Op, VggValueRange> registered("vgg_value_range");

}  // namespace
}  // namespace bv
