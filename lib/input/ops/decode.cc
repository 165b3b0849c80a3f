// decode(channels=3, precise=False, exif=False): encoded bytes to an image.
//   channels  1 or 3
//   precise   True: the accurate DCT, as most JPEG decoders use; False: the fast integer DCT
//   exif      True: the image is turned and mirrored as its EXIF orientation says; False: it stays
//             as it is stored, as in big_vision, which has no such argument
// Keys: key, or inkey and outkey; "image" by default. Takes the bytes of a JPEG, PNG or WebP file
// as 1-d uint8, gives (height, width, channels) uint8. Draws nothing.
// Follows big_vision's pp/ops_image.py `get_decode` and TensorFlow's decode_jpeg.
#include "lib/input/image/decode.h"

#include "lib/input/image/orientation.h"
#include "lib/input/op.h"
#include "lib/input/ops/common/example_keys.h"
#include "lib/util/text.h"

namespace bv {
namespace {

class Decode : public Op {
 public:
  explicit Decode(const Config& args)
      : channels_(args.get<int64_t>("channels", 3)),
        precise_(args.get<bool>("precise", false)),
        exif_(args.get<bool>("exif", false)),
        keys_(args) {
    if (channels_ != 1 && channels_ != 3) {
      args.problem("channels", fmt::format("must be 1 or 3, got {}", channels_));
    }
  }

  void apply(Example& example, Rng&) const override {
    const at::Tensor bytes = require_tensor(example, keys_.in, "decode").contiguous();
    if (bytes.dim() != 1 || bytes.scalar_type() != at::kByte) {
      throw Error::bare(
          Exit::usage,
          fmt::format("decode: '{}' must be encoded bytes (1-d uint8), has shape {} and type {}",
                      keys_.in, shape_text(bytes.sizes()), c10::toString(bytes.scalar_type())));
    }
    const std::span<const uint8_t> file{bytes.const_data_ptr<uint8_t>(),
                                        static_cast<size_t>(bytes.numel())};
    const at::Tensor image = decode_image(file, static_cast<int>(channels_), precise_);
    example[keys_.out] = exif_ ? turn_upright(image, exif_orientation(file)) : image;
  }

  bool ignores_orientation() const override { return !exif_; }

 private:
  const int64_t channels_;
  const bool precise_, exif_;
  const InOutKeys keys_;
};

const Register<Op, Decode> registered("decode");

}  // namespace
}  // namespace bv
