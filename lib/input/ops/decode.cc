// The op decode. Draws no random numbers.
#include "lib/input/image/decoding.h"

#include "lib/config/key_table.h"
#include "lib/device/dtype_name.h"
#include "lib/input/op.h"
#include "lib/input/ops/common/example_keys.h"
#include "lib/util/text.h"

namespace bv {
namespace {

const KeyTable decode_keys(
    "pp: decode",
    {"Decodes an image file. It changes 'image' from the bytes of a JPEG, PNG or WebP file (1-d "
     "uint8) to pixels: (height, width, channels) uint8. Put it first for data that consists of "
     "image files; decoded data does not need it. It keeps the upper 8 bits of PNG files with 16 "
     "bits per channel.",
     "decode", "pp/ops_image.py get_decode"},
    {{"channels", "'1' | '3'", "3",
      "Number of channels of the result. 3 gives RGB, with three equal channels for a grey image; "
      "1 gives grey, the luminance of a colour image."},
     {"precise", "bool", "false",
      "How to decode JPEG files. True is exact, as in most programs; False is faster, as in "
      "big_vision, and off by about 1 of 255 levels on average and by up to about 20 in single "
      "pixels. Choose True for weights from programs that decode with PIL, such as timm and "
      "Hugging Face. In CMYK files without an Adobe marker, True takes the inks as inverted, as "
      "PIL does, and False does not."},
     {"exif", "bool", "false",
      "If True, the image is rotated and flipped by its EXIF orientation, so that photos from "
      "phones and cameras are upright. If False, it stays as stored, as in big_vision.",
      "", "-"}},
    in_out_key_texts());

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
                      keys_.in, shape_text(bytes.sizes()), dtype_name(bytes.scalar_type())));
    }
    const std::span<const uint8_t> file{bytes.const_data_ptr<uint8_t>(),
                                        static_cast<size_t>(bytes.numel())};
    example[keys_.out] = decode_image(file, *decodes());
  }

  std::optional<Decoding> decodes() const override {
    return Decoding{keys_.in, static_cast<int>(channels_), precise_, exif_};
  }
  void apply_decoded(Example& example, const at::Tensor& image, Rng&) const override {
    example[keys_.out] = image;
  }

  bool leaves(std::string_view key) const override { return keys_.in != key && keys_.out != key; }
  bool ignores_orientation() const override { return !exif_; }

 private:
  const int64_t channels_;
  const bool precise_, exif_;
  const InOutKeys keys_;
};

const Register<Op, Decode> registered_decode("decode");

}  // namespace
}  // namespace bv
