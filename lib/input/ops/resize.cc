// resize: to a given size, aspect ratio not kept. pp: "resize(224)", "resize([192, 256], 'area')"
// Reference section 12.3; numerics in image/resize.h.
#include "lib/input/ops/common/resize_op.h"

namespace bv {
namespace {

class Resize : public ResizeOp {
 public:
  explicit Resize(const Config& args) : ResizeOp("resize"), size_(read_size(args, "size")) {
    kind_ = read_resize_kind(args, "bilinear", false);
    keys_ = InOut(args);
  }

 private:
  Size target(Size) const override { return size_; }
  const Size size_;
};

const Register<Op, Resize> registered("resize");

}  // namespace
}  // namespace bv
