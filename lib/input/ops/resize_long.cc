// resize_long(longer_size, method="area", antialias=True): resizes the image so that its longer
// side has this length; keeps the aspect ratio.
//   method, antialias  see image/resizer.h
// Keys: key, or inkey and outkey; "image" by default. Takes and gives (height, width, channels)
// uint8 or float32. Draws nothing.
// Follows big_vision's pp/ops_image.py `get_resize_long`.
#include <algorithm>

#include "lib/input/ops/common/resize_op.h"

namespace bv {
namespace {

class ResizeLong : public ResizeOp {
 public:
  explicit ResizeLong(const Config& args)
      : ResizeOp("resize_long"), side_(read_side(args, "longer_size")) {
    resize_ = read_resize_options(args, "area", true);
    keys_ = InOutKeys(args);
  }

 private:
  Size target(Size from) const override {
    return scaled(from, side_, std::max(from.height, from.width));
  }
  const int64_t side_;
};

const Register<Op, ResizeLong> registered("resize_long");

}  // namespace
}  // namespace bv
