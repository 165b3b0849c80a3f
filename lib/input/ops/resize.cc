// The op resize. Draws no random numbers.
#include "lib/config/key_table.h"
#include "lib/input/ops/common/resize_op.h"

namespace bv {
namespace {

const KeyTable resize_keys(
    "pp: resize",
    {"Resizes the image to a fixed size without keeping its aspect ratio. 'image' must be (height, "
     "width, channels) of uint8 or float32 and keeps its type. To make photos much smaller, add "
     "antialias=True: without it 'bilinear' skips pixels, which leaves jagged edges.",
     "resize(224)", "pp/ops_image.py get_resize"},
    {{"size", kSizeType, "required",
      "Size of the result in pixels: one number for both sides, or [height, "
      "width], of at most 268435456 pixels in total."}},
    resize_option_key_texts("bilinear", "false"), in_out_key_texts());

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

const Register<Op, Resize> registered_resize("resize");

}  // namespace
}  // namespace bv
