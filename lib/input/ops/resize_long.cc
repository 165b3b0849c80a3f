// The op resize_long. Draws no random numbers.
#include <algorithm>

#include "lib/config/key_table.h"
#include "lib/input/ops/common/resize_op.h"
#include "lib/util/limits.h"

namespace bv {
namespace {

const KeyTable resize_long_keys(
    "pp: resize_long",
    {"Resizes the image so that its longer side has a given length, and keeps its aspect ratio. "
     "'image' must be (height, width, channels) of uint8 or float32 and keeps its type. With "
     "pad_to_shape after it, the whole image stays visible.",
     "resize_long(224)", "pp/ops_image.py get_resize_long"},
    {{"longer_size", "int 1..65500", "required",
      "Length of the longer side of the result in pixels. The other side is rounded to whole "
      "pixels. A result above 268435456 pixels in total is an error."}},
    resize_option_key_texts("area", "true"), in_out_key_texts());

class ResizeLong : public ResizeOp {
 public:
  explicit ResizeLong(const Config& args)
      : ResizeOp("resize_long"), side_(read_side(args, "longer_size", limits::kImageSide)) {
    resize_ = read_resize_options(args, "area", true);
    keys_ = InOutKeys(args);
  }

 private:
  Size target(Size from) const override {
    return scaled(from, side_, std::max(from.height, from.width));
  }
  const int64_t side_;
};

const Register<Op, ResizeLong> registered_resize_long("resize_long");

}  // namespace
}  // namespace bv
