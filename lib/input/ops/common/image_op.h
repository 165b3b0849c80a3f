// ImageOp: base class of ops that make images from images.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "lib/input/image/geometry.h"
#include "lib/input/ops/common/tensor_op.h"

namespace bv {

// One image, or a stack of images of equal shapes.
struct Images {
  at::Tensor tensor;  // contiguous, (height, width, channels) or (count, height, width, channels)
  bool batched = false;
  int64_t count = 0, height = 0, width = 0, channels = 0;

  int64_t pixel_bytes() const { return channels * static_cast<int64_t>(tensor.element_size()); }
  // Returns the memory of image i.
  const uint8_t* bytes(int64_t i) const;
  // Returns an uninitialized tensor for as many images of another size, with the same dtype and
  // channels.
  at::Tensor like(Size size) const;
};
// Returns the memory of image i of a contiguous tensor of `count` images.
uint8_t* image_bytes(at::Tensor& images, int64_t i, int64_t count);

// Checks that the tensor is a decoded image or a stack of them, and passes it to map_images().
class ImageOp : public TensorOp {
 protected:
  using TensorOp::TensorOp;
  virtual at::Tensor map_images(const Images& images, std::span<Rng> rngs) const = 0;
  // Throws misuse() unless the images are uint8 or float32.
  void require_byte_or_float(const Images& images) const;

 private:
  at::Tensor map(const at::Tensor& x, bool batched, std::span<Rng> rngs) const final;
};

}  // namespace bv
