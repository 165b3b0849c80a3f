// inception_crop: a random window of random size and aspect ratio, resized if a size is given.
// pp: "inception_crop(224)", "inception_crop(size=224, area_min=20)"
// Reference section 12.6. Draws: those of sample_crop_window().
#include "lib/input/image/crop.h"
#include "lib/input/ops/common/resize_op.h"

namespace bv {
namespace {

class InceptionCrop : public ImageOp {
 public:
  explicit InceptionCrop(const Config& args)
      : ImageOp("inception_crop"),
        size_(maybe_size(args, "size")),
        range_(read_crop_area(args)),
        kind_(read_resize_kind(args, "bilinear", false)) {
    keys_ = InOut(args);
  }

  // Without a size the windows differ from image to image.
  bool has_batched() const override { return size_.has_value(); }

 private:
  at::Tensor map_images(const Images& images, std::span<Rng> rngs) const override {
    if (!size_) return cut(images, rngs[0]);
    need_byte_or_float(images);
    at::Tensor out = images.like(*size_);
    for (int64_t i = 0; i < images.count; ++i) {
      const Window window = sample_crop_window(images.height, images.width, range_, rngs[i]);
      const Resizer resizer(kind_.method, kind_.antialias, {window.height, window.width}, *size_,
                            images.channels);
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
  const ResizeKind kind_;
};

const Register<Op, InceptionCrop> registered("inception_crop");

}  // namespace
}  // namespace bv
