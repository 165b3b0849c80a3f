// The op resize_small. Draws no random numbers.
#include <algorithm>

#include "lib/config/key_table.h"
#include "lib/input/ops/common/resize_op.h"
#include "lib/util/limits.h"

namespace bv {
namespace {

const KeyTable resize_small_keys(
    "pp: resize_small",
    {"Resizes the image so that its smaller side has a given length, and keeps its aspect ratio. "
     "'image' must be (height, width, channels) of uint8 or float32 and keeps its type. Use it in "
     "evaluation, before central_crop.",
     "resize_small(256)", "pp/ops_image.py get_resize_small"},
    {{"smaller_size", "int 1..16384", "required",
      "Length of the smaller side of the result in pixels. The other side is rounded to whole "
      "pixels. A result above 65500 pixels per side or 268435456 in total is an error."}},
    resize_option_key_texts("area", "false"), in_out_key_texts());

class ResizeSmall : public ResizeOp {
 public:
  explicit ResizeSmall(const Config& args)
      : ResizeOp("resize_small"), side_(read_side(args, "smaller_size", limits::kSquareSide)) {
    resize_ = read_resize_options(args, "area", false);
    keys_ = InOutKeys(args);
  }

 private:
  Size target(Size from) const override {
    return scaled(from, side_, std::min(from.height, from.width));
  }
  const int64_t side_;
};

const Register<Op, ResizeSmall> registered_resize_small("resize_small");

}  // namespace
}  // namespace bv
