// The op flip_lr. Draws one uniform number, unless it alternates.
#include <cstring>

#include "lib/config/key_table.h"
#include "lib/device/cpu_dispatch.h"
#include "lib/input/ops/common/image_op.h"

namespace bv {
namespace {

const KeyTable flip_lr_keys(
    "pp: flip_lr",
    {"Flips the image left to right with probability 0.5. It changes 'image', of shape (height, "
     "width, channels) and any type. Leave it out if left and right matter, as for digits and "
     "text.",
     "flip_lr", "pp/ops_image.py get_random_flip_lr"},
    {{"alternate", "bool", "false",
      "Whether to alternate flips: a random half of the examples in the first pass over the data, "
      "the other half in the second, and so on. Each example then appears in both forms within two "
      "passes, which helps runs of a few passes (K. Jordan, \"94% on CIFAR-10 in 3.29 Seconds on a "
      "Single GPU\", 2024). Evaluators pass over their data once: they should not flip.",
      "", "-"}},
    in_out_key_texts());

// kPixel is the number of bytes of a pixel. It is 0 if the number is known only at run time.
template <int kPixel>
[[gnu::always_inline]] inline void mirror_rows(const uint8_t* __restrict in, int64_t rows,
                                               int64_t width, int64_t pixel,
                                               uint8_t* __restrict out) {
  const int64_t size = kPixel > 0 ? kPixel : pixel;
  for (int64_t y = 0; y < rows; ++y, in += width * size, out += width * size) {
    for (int64_t x = 0; x < width; ++x)
      std::memcpy(out + (width - 1 - x) * size, in + x * size, size);
  }
}

void mirror(const uint8_t* in, int64_t rows, int64_t width, int64_t pixel, uint8_t* out) {
  run_simd([&]() __attribute__((always_inline)) {
    if (pixel == 1) return mirror_rows<1>(in, rows, width, pixel, out);
    if (pixel == 3) return mirror_rows<3>(in, rows, width, pixel, out);
    if (pixel == 4) return mirror_rows<4>(in, rows, width, pixel, out);
    if (pixel == 12) return mirror_rows<12>(in, rows, width, pixel, out);
    mirror_rows<0>(in, rows, width, pixel, out);
  });
}

class FlipLr : public ImageOp {
 public:
  explicit FlipLr(const Config& args)
      : ImageOp("flip_lr"), alternate_(args.get<bool>("alternate", false)) {
    keys_ = InOutKeys(args);
  }

  bool is_random() const override { return true; }

 private:
  at::Tensor map_images(const Images& images, std::span<Rng> rngs) const override {
    const int64_t bytes = images.height * images.width * images.pixel_bytes();
    at::Tensor out;
    for (int64_t i = 0; i < images.count; ++i) {
      const bool flip = alternate_ ? rngs[i].alternate() : rngs[i].uniform() < 0.5;
      if (!images.batched && !flip) return images.tensor;
      if (!out.defined()) out = images.like({images.height, images.width});
      uint8_t* to = image_bytes(out, i, images.count);
      if (flip) {
        mirror(images.bytes(i), images.height, images.width, images.pixel_bytes(), to);
      } else {
        std::memcpy(to, images.bytes(i), bytes);
      }
    }
    return out;
  }

  const bool alternate_;
};

const Register<Op, FlipLr> registered_flip_lr("flip_lr");

}  // namespace
}  // namespace bv
