// resize_small: the smaller side to a given size, aspect ratio kept. pp: "resize_small(256)"
// Reference section 12.3; numerics in image/resize.h.
#include <algorithm>

#include "lib/input/ops/common/resize_op.h"

namespace bv {
namespace {

class ResizeSmall : public ResizeOp {
 public:
  explicit ResizeSmall(const Config& args)
      : ResizeOp("resize_small"), side_(read_side(args, "smaller_size")) {
    kind_ = read_resize_kind(args, "area", false);
    keys_ = InOut(args);
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
