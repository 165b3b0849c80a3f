// decode(channels=3, precise=False): encoded bytes to an image.
//   channels  1 or 3
//   precise   True: the accurate DCT, as most JPEG decoders use; False: the fast integer DCT
// Keys: key, or inkey and outkey; "image" by default. Takes the bytes of a JPEG or PNG file as 1-d
// uint8, gives (height, width, channels) uint8. Draws nothing.
// Follows big_vision's pp/ops_image.py `get_decode` and TensorFlow's decode_jpeg.
#include "lib/input/image/decode.h"

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
    example[keys_.out] =
        decode_image({bytes.const_data_ptr<uint8_t>(), static_cast<size_t>(bytes.numel())},
                     static_cast<int>(channels_), precise_);
  }

 private:
  const int64_t channels_;
  const bool precise_;
  const InOutKeys keys_;
};

const Register<Op, Decode> registered("decode");

}  // namespace
}  // namespace bv
