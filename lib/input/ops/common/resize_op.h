// ResizeOp: base class of resize, resize_small and resize_long.
#pragma once

#include "lib/input/ops/common/image_op.h"
#include "lib/input/ops/common/op_args.h"

namespace bv {

// Resizes images, uint8 or float32, to target(). Draws nothing.
class ResizeOp : public ImageOp {
 protected:
  using ImageOp::ImageOp;
  // Returns the size of the result for an image of size `from`.
  virtual Size target(Size from) const = 0;
  // Returns both sides times side / reference, in float32 and rounded (halves to even).
  static Size scaled(Size from, int64_t side, int64_t reference);
  ResizeOptions resize_;

 private:
  at::Tensor map_images(const Images& images, std::span<Rng> rngs) const final;
};

// Resizes one image of `dtype` (uint8 or float32), whose rows begin `row_stride` elements apart.
void resize_bytes(const Resizer& resizer, at::ScalarType dtype, const uint8_t* in,
                  int64_t row_stride, uint8_t* out);

}  // namespace bv
