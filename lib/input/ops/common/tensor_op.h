// Base classes of ops that make one tensor from one tensor, in the single and the batched form by
// the same code.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <string>

#include "lib/input/image/resize.h"
#include "lib/input/op.h"

namespace bv {

// Takes keys_.in, puts keys_.out.
class TensorOp : public Op {
 public:
  void apply(Example& example, Rng& rng) const final;
  bool has_batched() const override { return true; }
  void apply_batch(Example& batch, std::span<Rng> rngs) const final;

 protected:
  explicit TensorOp(const char* name) : name_(name) {}

  // x is one example's tensor, or if `batched` a stack of them: its leading dimension is then
  // rngs.size(). x must not be written to: it may be the source's own memory.
  virtual at::Tensor map(const at::Tensor& x, bool batched, std::span<Rng> rngs) const = 0;

  // The op can't work on this kind of data: "resize: 'image' <why>".
  Error misuse(std::string_view why) const;
  // This example is at fault: "resize: <why>".
  Error bad_example(std::string_view why) const;

  const char* const name_;
  InOut keys_;  // constructors read it last: `keys_ = InOut(args)` takes no positional arguments
};

// The image of an example as a stack of one, or those of a stack of examples.
struct Images {
  at::Tensor tensor;  // contiguous, (height, width, channels) or (count, height, width, channels)
  bool batched = false;
  int64_t count = 0, height = 0, width = 0, channels = 0;

  int64_t pixel_bytes() const { return channels * static_cast<int64_t>(tensor.element_size()); }
  const uint8_t* bytes(int64_t i) const;  // of image i
  at::Tensor like(Size size) const;       // uninitialised, of this dtype
};
uint8_t* image_bytes(at::Tensor& images, int64_t i, int64_t count);  // of image i of `count`

class ImageOp : public TensorOp {
 protected:
  using TensorOp::TensorOp;
  virtual at::Tensor map_images(const Images& images, std::span<Rng> rngs) const = 0;
  // Throws misuse() unless the images are uint8 or float32.
  void need_byte_or_float(const Images& images) const;

 private:
  at::Tensor map(const at::Tensor& x, bool batched, std::span<Rng> rngs) const final;
};

std::string shape_text(at::IntArrayRef shape);  // "(28, 28, 1)"

}  // namespace bv
