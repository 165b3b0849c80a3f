// resize_long: the longer side to a given size, aspect ratio kept. pp: "resize_long(256)"
// Reference section 12.3; numerics in image/resize.h.
#include <algorithm>

#include "lib/input/ops/common/resize_op.h"

namespace bv {
namespace {

class ResizeLong : public ResizeOp {
 public:
  explicit ResizeLong(const Config& args)
      : ResizeOp("resize_long"), side_(read_side(args, "longer_size")) {
    kind_ = read_resize_kind(args, "area", true);
    keys_ = InOut(args);
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
