// randaug(num_layers=2, magnitude=10): RandAugment, `num_layers` random operations in a row.
//   magnitude  the strength of the operations; nominally 0..10, more extrapolates
// Keys: key, or inkey and outkey; "image" by default. Takes and gives (height, width, 3) uint8.
// Draws what draw_augmentation() draws, for each layer.
// Follows big_vision's pp/archive/randaug.py `get_randaug`; "archive.randaug", the name of that
// module, is the same op.
#include <cstring>

#include "lib/input/image/rand_augment.h"
#include "lib/input/ops/common/image_op.h"

namespace bv {
namespace {

class RandAug : public ImageOp {
 public:
  explicit RandAug(const Config& args)
      : ImageOp("randaug"),
        num_layers_(args.get<int64_t>("num_layers", 2)),
        magnitude_(args.get<double>("magnitude", 10)) {
    keys_ = InOutKeys(args);
    if (num_layers_ < 0 || num_layers_ > 100) {
      args.problem("num_layers", fmt::format("must be within 0 .. 100, got {}", num_layers_));
    }
    if (!(magnitude_ >= 0 && magnitude_ <= 100)) {
      args.problem("magnitude", fmt::format("must be within 0 .. 100, got {}", magnitude_));
    }
  }

 private:
  at::Tensor map_images(const Images& images, std::span<Rng> rngs) const override {
    if (images.tensor.scalar_type() != at::kByte) {
      throw misuse(
          fmt::format("must be uint8, is {}: put this op before value_range and similar ops",
                      c10::toString(images.tensor.scalar_type())));
    }
    if (images.channels != 3) {
      throw misuse(fmt::format("must have 3 channels, has {}", images.channels));
    }
    at::Tensor out = images.like({images.height, images.width});
    std::memcpy(out.mutable_data_ptr(), images.tensor.const_data_ptr(), out.nbytes());
    for (int64_t i = 0; i < images.count; ++i) {
      const RgbImage image = {image_bytes(out, i, images.count), images.height, images.width};
      for (int64_t layer = 0; layer < num_layers_; ++layer) {
        augment(image, draw_augmentation(images.height, images.width, rngs[i]), magnitude_);
      }
    }
    return out;
  }

  const int64_t num_layers_;
  const double magnitude_;
};

const Register<Op, RandAug> registered("randaug");
const Register<Op, RandAug> registered_with_its_module("archive.randaug");

}  // namespace
}  // namespace bv
