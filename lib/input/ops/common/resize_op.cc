#include "lib/input/ops/common/resize_op.h"

#include <cmath>

#include "lib/input/image/geometry.h"
#include "lib/util/limits.h"

namespace bv {

Size ResizeOp::scaled(Size from, int64_t side, int64_t reference) {
  const float factor = static_cast<float>(side) / static_cast<float>(reference);
  const auto times = [&](int64_t length) {
    return static_cast<int64_t>(std::nearbyint(static_cast<float>(length) * factor));
  };
  return {times(from.height), times(from.width)};
}

at::Tensor ResizeOp::map_images(const Images& images, std::span<Rng>) const {
  require_byte_or_float(images);
  const Size from = {images.height, images.width};
  const Size to = target(from);
  if (to.height < 1 || to.width < 1 || to.height > limits::kImageSide ||
      to.width > limits::kImageSide || to.height * to.width > limits::kImagePixels) {
    throw bad_example(fmt::format(
        "an image of {}x{} would become {}x{}; the limits are 1 .. {} a side and {} pixels",
        from.height, from.width, to.height, to.width, limits::kImageSide, limits::kImagePixels));
  }
  check_result({to.height, to.width, images.channels}, images.tensor.element_size());
  const Resizer resizer(resize_.method, resize_.antialias, from, to, images.channels);
  at::Tensor out = images.like(to);
  for (int64_t i = 0; i < images.count; ++i) {
    resize_bytes(resizer, images.tensor.scalar_type(), images.bytes(i),
                 images.width * images.channels, image_bytes(out, i, images.count));
  }
  return out;
}

void resize_bytes(const Resizer& resizer, at::ScalarType dtype, const uint8_t* in,
                  int64_t row_stride, uint8_t* out) {
  if (dtype == at::kByte) return resizer.run(in, row_stride, out);
  resizer.run(reinterpret_cast<const float*>(in), row_stride, reinterpret_cast<float*>(out));
}

}  // namespace bv
