// resize_small(smaller_size, method="area", antialias=False): resizes the image so that its smaller
// side has this length; keeps the aspect ratio.
//   method, antialias  see image/resizer.h
// Keys: key, or inkey and outkey; "image" by default. Takes and gives (height, width, channels)
// uint8 or float32. Draws nothing.
// Follows big_vision's pp/ops_image.py `get_resize_small`.
#include <algorithm>

#include "lib/input/ops/common/resize_op.h"

namespace bv {
namespace {

class ResizeSmall : public ResizeOp {
 public:
  explicit ResizeSmall(const Config& args)
      : ResizeOp("resize_small"), side_(read_side(args, "smaller_size")) {
    resize_ = read_resize_options(args, "area", false);
    keys_ = InOutKeys(args);
  }

 private:
  Size target(Size from) const override {
    return scaled(from, side_, std::min(from.height, from.width));
  }
  const int64_t side_;
};

const Register<Op, ResizeSmall> registered("resize_small");

}  // namespace
}  // namespace bv
