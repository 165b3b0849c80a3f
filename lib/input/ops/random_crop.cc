// random_crop: a window at a uniformly random place. pp: "random_crop(32)", "random_crop([24, 32])"
// Reference section 12.3. Draws: y, x.
#include "lib/input/image/crop.h"
#include "lib/input/ops/common/op_args.h"
#include "lib/input/ops/common/tensor_op.h"

namespace bv {
namespace {

class RandomCrop : public ImageOp {
 public:
  explicit RandomCrop(const Config& args)
      : ImageOp("random_crop"), size_(read_size(args, "crop_size")) {
    keys_ = InOut(args);
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
