// The op random_crop. Draws y, then x.
#include <atomic>

#include "lib/config/key_table.h"
#include "lib/input/image/crop.h"
#include "lib/input/ops/common/image_op.h"
#include "lib/input/ops/common/op_args.h"

namespace bv {
namespace {

const KeyTable random_crop_keys(
    "pp: random_crop",
    {"Crops the image at a uniformly random position. It changes 'image', of shape "
     "(height, width, channels) and any type.",
     "random_crop(32)", "pp/ops_image.py get_random_crop"},
    {{"crop_size", kSizeType, "required",
      "Size of the crop in pixels: one number for both sides, or [height, width]. "
      "A smaller image is an error; an image of this size stays as it is. For PyTorch's "
      "RandomCrop(32, padding=4), put pad_to_shape([40, 40, 3], where='both') before it."}},
    in_out_key_texts());

class RandomCrop : public ImageOp {
 public:
  explicit RandomCrop(const Config& args)
      : ImageOp("random_crop"), size_(read_size(args, "crop_size")) {
    keys_ = InOutKeys(args);
  }

  bool is_random() const override { return true; }
  bool had_no_choice() const override { return !had_choice_.load(std::memory_order_relaxed); }

 private:
  at::Tensor map_images(const Images& images, std::span<Rng> rngs) const override {
    if (size_.height > images.height || size_.width > images.width) {
      throw bad_example(fmt::format("the crop of {}x{} is larger than the image of {}x{}",
                                    size_.height, size_.width, images.height, images.width));
    }
    if ((size_.height < images.height || size_.width < images.width) && had_no_choice())
      had_choice_.store(true, std::memory_order_relaxed);
    at::Tensor out = images.like(size_);
    for (int64_t i = 0; i < images.count; ++i) {
      Window window = {0, 0, size_.height, size_.width};
      window.y = rngs[i].below(images.height - size_.height + 1);
      window.x = rngs[i].below(images.width - size_.width + 1);
      copy_window(images.bytes(i), images.width * images.pixel_bytes(), images.pixel_bytes(),
                  window, image_bytes(out, i, images.count));
    }
    return out;
  }

  const Size size_;
  mutable std::atomic<bool> had_choice_ = false;  // an image was larger than size_
};

const Register<Op, RandomCrop> registered_random_crop("random_crop");

}  // namespace
}  // namespace bv
