// The op randaug. Draws what draw_augmentation() draws, for each layer.
#include <cstring>

#include "lib/config/key_table.h"
#include "lib/device/dtype_name.h"
#include "lib/input/image/rand_augment.h"
#include "lib/input/ops/common/image_op.h"

namespace bv {
namespace {

constexpr KeyText kRandAugKeys[] = {
    {"num_layers", "int 0..100", "2",
     "Number of operations to apply to an image, one after the other. 0 leaves the image as it "
     "is."},
    {"magnitude", "float 0..100", "10",
     "Strength of the operations. For example, 10, the nominal maximum, rotates by 30 degrees and "
     "5 by 15; values above 10 go further. Operations such as Invert have no strength. "
     "torchvision's RandAugment has magnitudes three times as large: its 9 is 3 here."}};
constexpr TableText kText = {
    "Applies RandAugment: a sequence of operations, each drawn from 16 such as Rotate, Posterize, "
    "Contrast, ShearX and Cutout. It changes 'image', which must be (height, width, 3) uint8, so "
    "put it before value_range. It reduces overfitting in long runs on photos.",
    "randaug(2, 10)", "pp/archive/randaug.py get_randaug"};
const KeyTable randaug_keys("pp: randaug", kText, {}, kRandAugKeys, in_out_key_texts());
const KeyTable keys_with_its_module("pp: archive.randaug", kText, {}, kRandAugKeys,
                                    in_out_key_texts());

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

  bool is_random() const override { return num_layers_ > 0; }

 private:
  at::Tensor map_images(const Images& images, std::span<Rng> rngs) const override {
    if (images.tensor.scalar_type() != at::kByte) {
      throw misuse(
          fmt::format("must be uint8, is {}: put this op before value_range and similar ops",
                      dtype_name(images.tensor.scalar_type())));
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

const Register<Op, RandAug> registered_randaug("randaug");
const Register<Op, RandAug> registered_with_its_module("archive.randaug");

}  // namespace
}  // namespace bv
