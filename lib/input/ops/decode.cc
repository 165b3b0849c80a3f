// decode: encoded bytes to an image. pp: "decode", "decode(channels=1)", "decode(precise=True)"
// Reference section 12.5: the fast DCT unless precise.
#include "lib/input/image/decode.h"

#include "lib/input/op.h"
#include "lib/input/ops/common/tensor_op.h"

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
    const at::Tensor bytes = need(example, keys_.in, "decode").contiguous();
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
  const InOut keys_;
};

const Register<Op, Decode> registered("decode");

}  // namespace
}  // namespace bv
