// The op inception_crop. Draws what sample_crop_window() draws.
#include "lib/config/key_table.h"
#include "lib/input/image/crop.h"
#include "lib/input/ops/common/resize_op.h"

namespace bv {
namespace {

const KeyTable inception_crop_keys(
    "pp: inception_crop",
    {"Takes a crop of random position, size and aspect ratio (0.75 to 1.33), and resizes it. It is "
     "the usual augmentation for photos. 'image' must be (height, width, channels), of uint8 or "
     "float32 if size is given, and keeps its type.",
     "inception_crop(224)", "pp/ops_image.py get_inception_crop"},
    {}, kCropSizeKeys, kCropAreaKeys, resize_option_key_texts("bilinear", "false"),
    in_out_key_texts());

class InceptionCrop : public ImageOp {
 public:
  explicit InceptionCrop(const Config& args)
      : ImageOp("inception_crop"),
        size_(maybe_size(args, "size")),
        range_(read_crop_area(args)),
        resize_(read_resize_options(args, "bilinear", false)) {
    keys_ = InOutKeys(args);
  }

  // Without a size, result shapes differ.
  bool has_batched() const override { return size_.has_value(); }
  bool is_random() const override { return true; }

 private:
  at::Tensor map_images(const Images& images, std::span<Rng> rngs) const override {
    if (!size_) return cut(images, rngs[0]);
    require_byte_or_float(images);
    check_result({size_->height, size_->width, images.channels}, images.tensor.element_size());
    at::Tensor out = images.like(*size_);
    for (int64_t i = 0; i < images.count; ++i) {
      const Window window = sample_crop_window(images.height, images.width, range_, rngs[i]);
      const Resizer resizer(resize_.method, resize_.antialias, {window.height, window.width},
                            *size_, images.channels);
      const int64_t first = (window.y * images.width + window.x) * images.pixel_bytes();
      resize_bytes(resizer, images.tensor.scalar_type(), images.bytes(i) + first,
                   images.width * images.channels, image_bytes(out, i, images.count));
    }
    return out;
  }

  at::Tensor cut(const Images& images, Rng& rng) const {
    const Window window = sample_crop_window(images.height, images.width, range_, rng);
    at::Tensor out = images.like({window.height, window.width});
    copy_window(images.bytes(0), images.width * images.pixel_bytes(), images.pixel_bytes(), window,
                image_bytes(out, 0, 1));
    return out;
  }

  const std::optional<Size> size_;
  const CropRange range_;
  const ResizeOptions resize_;
};

const Register<Op, InceptionCrop> registered_inception_crop("inception_crop");

}  // namespace
}  // namespace bv
