// random_crop(crop_size): a window at a uniformly random place.
//   crop_size  a number for both sides or [height, width]
// Keys: key, or inkey and outkey; "image" by default. Takes and gives (height, width, channels) of
// any dtype. An image smaller than the crop is an error. Draws y, then x.
// Follows big_vision's pp/ops_image.py `get_random_crop`.
#include "lib/input/image/crop.h"
#include "lib/input/ops/common/image_op.h"
#include "lib/input/ops/common/op_args.h"

namespace bv {
namespace {

class RandomCrop : public ImageOp {
 public:
  explicit RandomCrop(const Config& args)
      : ImageOp("random_crop"), size_(read_size(args, "crop_size")) {
    keys_ = InOutKeys(args);
  }

 private:
  at::Tensor map_images(const Images& images, std::span<Rng> rngs) const override {
    if (size_.height > images.height || size_.width > images.width) {
      throw bad_example(fmt::format("the crop of {}x{} is larger than the image of {}x{}",
                                    size_.height, size_.width, images.height, images.width));
    }
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
};

const Register<Op, RandomCrop> registered("random_crop");

}  // namespace
}  // namespace bv
