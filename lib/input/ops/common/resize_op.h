// What resize, resize_small and resize_long share.
#pragma once

#include "lib/input/ops/common/op_args.h"
#include "lib/input/ops/common/tensor_op.h"

namespace bv {

class ResizeOp : public ImageOp {
 protected:
  using ImageOp::ImageOp;
  virtual Size target(Size from) const = 0;
  // Both sides times side / reference, in float32 and rounded half to even.
  static Size scaled(Size from, int64_t side, int64_t reference);
  ResizeKind kind_;

 private:
  at::Tensor map_images(const Images& images, std::span<Rng> rngs) const final;
};

// Resizes one image of `dtype` (uint8 or float32); its rows begin `row_stride` elements apart.
void resize_bytes(const Resizer& resizer, at::ScalarType dtype, const uint8_t* in,
                  int64_t row_stride, uint8_t* out);

}  // namespace bv
