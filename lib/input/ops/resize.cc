// resize(size, method="bilinear", antialias=False): resizes the image; does not keep the aspect
// ratio.
//   size               a number for both sides or [height, width]
//   method, antialias  see image/resizer.h
// Keys: key, or inkey and outkey; "image" by default. Takes and gives (height, width, channels)
// uint8 or float32. Draws nothing.
// Follows big_vision's pp/ops_image.py `get_resize`.
#include "lib/input/ops/common/resize_op.h"

namespace bv {
namespace {

class Resize : public ResizeOp {
 public:
  explicit Resize(const Config& args) : ResizeOp("resize"), size_(read_size(args, "size")) {
    resize_ = read_resize_options(args, "bilinear", false);
    keys_ = InOutKeys(args);
  }

 private:
  Size target(Size) const override { return size_; }
  const Size size_;
};

const Register<Op, Resize> registered("resize");

}  // namespace
}  // namespace bv
