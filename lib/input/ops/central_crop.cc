// The op central_crop. Draws no random numbers.
#include <algorithm>

#include "lib/config/key_table.h"
#include "lib/input/image/crop.h"
#include "lib/input/ops/common/image_op.h"
#include "lib/input/ops/common/op_args.h"

namespace bv {
namespace {

const KeyTable central_crop_keys(
    "pp: central_crop",
    {"Crops the centre of the image. It changes 'image', of shape (height, width, channels) and "
     "any type. Use it in evaluation, after resize_small.",
     "central_crop(224)", "pp/ops_image.py get_central_crop"},
    {{"crop_size", kSizeType, "= the shorter side of the image",
      "Size of the crop in pixels: one number for both sides, or [height, width]. A smaller image "
      "is an error. By default, the crop is the largest square that fits."}},
    in_out_key_texts());

class CentralCrop : public ImageOp {
 public:
  explicit CentralCrop(const Config& args)
      : ImageOp("central_crop"), size_(maybe_size(args, "crop_size")) {
    keys_ = InOutKeys(args);
  }

 private:
  at::Tensor map_images(const Images& images, std::span<Rng>) const override {
    const int64_t square = std::min(images.height, images.width);
    const Size size = size_.value_or(Size{square, square});
    if (size.height > images.height || size.width > images.width) {
      throw bad_example(fmt::format("the crop of {}x{} is larger than the image of {}x{}",
                                    size.height, size.width, images.height, images.width));
    }
    const Window window = {(images.height - size.height) / 2, (images.width - size.width) / 2,
                           size.height, size.width};
    at::Tensor out = images.like(size);
    for (int64_t i = 0; i < images.count; ++i) {
      copy_window(images.bytes(i), images.width * images.pixel_bytes(), images.pixel_bytes(),
                  window, image_bytes(out, i, images.count));
    }
    return out;
  }

  const std::optional<Size> size_;
};

const Register<Op, CentralCrop> registered_central_crop("central_crop");

}  // namespace
}  // namespace bv
