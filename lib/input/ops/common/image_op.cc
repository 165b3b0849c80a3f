#include "lib/input/ops/common/image_op.h"

#include <ATen/ops/empty.h>

#include "lib/device/dtype_name.h"
#include "lib/util/text.h"

namespace bv {

const uint8_t* Images::bytes(int64_t i) const {
  return static_cast<const uint8_t*>(tensor.const_data_ptr()) + i * height * width * pixel_bytes();
}

at::Tensor Images::like(Size size) const {
  if (batched) return at::empty({count, size.height, size.width, channels}, tensor.options());
  return at::empty({size.height, size.width, channels}, tensor.options());
}

uint8_t* image_bytes(at::Tensor& images, int64_t i, int64_t count) {
  return static_cast<uint8_t*>(images.mutable_data_ptr()) +
         i * static_cast<int64_t>(images.nbytes()) / count;
}

at::Tensor ImageOp::map(const at::Tensor& x, bool batched, std::span<Rng> rngs) const {
  const int64_t lead = batched ? 1 : 0;
  const at::IntArrayRef shape = x.sizes().slice(lead);
  if (shape.size() == 1 && x.scalar_type() == at::kByte) {
    throw misuse("is still encoded (1-d uint8): put 'decode' before this op");
  }
  if (shape.size() != 3) {
    throw misuse(
        fmt::format("must have shape (height, width, channels), has {}", shape_text(shape)));
  }
  if (shape[0] < 1 || shape[1] < 1 || shape[2] < 1) {
    throw bad_example(fmt::format("the image is empty: shape {}", shape_text(shape)));
  }
  const Images images{x.contiguous(), batched,  batched ? x.size(0) : 1,
                      shape[0],       shape[1], shape[2]};
  return map_images(images, rngs);
}

void ImageOp::require_byte_or_float(const Images& images) const {
  const at::ScalarType dtype = images.tensor.scalar_type();
  if (dtype == at::kByte || dtype == at::kFloat) return;
  throw misuse(fmt::format("must be uint8 or float32, is {}: put value_range(...) before this op",
                           dtype_name(dtype)));
}

}  // namespace bv
