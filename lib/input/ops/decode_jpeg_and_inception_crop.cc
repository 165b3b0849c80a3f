// The op decode_jpeg_and_inception_crop. The same draws give the same window as inception_crop
// (sample_crop_window()). The DCT is the fast one.
#include <ATen/ops/empty.h>

#include "lib/config/key_table.h"
#include "lib/device/dtype_name.h"
#include "lib/input/image/crop.h"
#include "lib/input/image/decode.h"
#include "lib/input/image/jpeg.h"
#include "lib/input/image/orientation.h"
#include "lib/input/ops/common/resize_op.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr KeyText kRatioKeys[] = {
    {"ratio_min", "float > 0", "0.75",
     "Minimum width / height of the crop. Values below 1 allow crops taller than wide."},
    {"ratio_max", "float 0<..1000", "1.33",
     "Maximum width / height of the crop, from ratio_min to 1000. Values above 1 allow crops wider "
     "than tall."}};
constexpr KeyText kExifKeys[] = {
    {"exif", "bool", "false",
     "If True, the crop is taken from the image turned upright by its EXIF orientation, as photos "
     "from phones and cameras need. If False, the image is used as stored, as in big_vision.",
     "", "-"}};
const KeyTable decode_jpeg_and_inception_crop_keys(
    "pp: decode_jpeg_and_inception_crop",
    {"Gives the same values as \"decode|inception_crop\", but faster: it decodes little more than "
     "the crop of a JPEG file. It changes 'image' from the bytes of a JPEG, PNG or WebP file (1-d "
     "uint8) to (height, width, 3) uint8. PNG and WebP files are decoded in full.",
     "decode_jpeg_and_inception_crop(224)", "pp/ops_image.py get_decode_jpeg_and_inception_crop"},
    {}, kCropSizeKeys, kCropAreaKeys, kRatioKeys, resize_option_key_texts("bilinear", "false"),
    kExifKeys, in_out_key_texts());

class DecodeJpegAndInceptionCrop : public Op {
 public:
  explicit DecodeJpegAndInceptionCrop(const Config& args)
      : size_(maybe_size(args, "size")), range_(read_crop_area(args)) {
    range_.aspect_min = args.get<double>("ratio_min", 0.75);
    range_.aspect_max = args.get<double>("ratio_max", 1.33);
    resize_ = read_resize_options(args, "bilinear", false);
    exif_ = args.get<bool>("exif", false);
    keys_ = InOutKeys(args);
    if (!(range_.aspect_min > 0)) {
      args.problem("ratio_min", fmt::format("must be positive, got {}", range_.aspect_min));
    } else if (!(range_.aspect_min <= range_.aspect_max && range_.aspect_max <= kMaxRatio)) {
      args.problem("ratio_max", fmt::format("must be within ratio_min = {} .. {}, got {}",
                                            range_.aspect_min, kMaxRatio, range_.aspect_max));
    }
  }

  bool leaves(std::string_view key) const override { return keys_.in != key && keys_.out != key; }
  bool ignores_orientation() const override { return !exif_; }
  bool is_random() const override { return true; }

  void apply(Example& example, Rng& rng) const override {
    const at::Tensor encoded =
        require_tensor(example, keys_.in, "decode_jpeg_and_inception_crop").contiguous();
    if (encoded.dim() != 1 || encoded.scalar_type() != at::kByte) {
      throw Error::bare(
          Exit::usage,
          fmt::format("decode_jpeg_and_inception_crop: '{}' must be encoded bytes "
                      "(1-d uint8), has shape {} and type {}",
                      keys_.in, shape_text(encoded.sizes()), dtype_name(encoded.scalar_type())));
    }
    const at::Tensor image = decode_window(
        {encoded.const_data_ptr<uint8_t>(), static_cast<size_t>(encoded.numel())}, rng);
    example[keys_.out] = size_ ? resized(image) : image;
  }

  // A window of the whole image is bit-identical to a window that is decoded alone
  // (decode_jpeg_crop()).
  std::optional<Decoding> decodes() const override {
    return Decoding{keys_.in, 3, /*precise=*/false, exif_};
  }
  void apply_decoded(Example& example, const at::Tensor& image, Rng& rng) const override {
    const Window window = sample_crop_window(image.size(0), image.size(1), range_, rng);
    const at::Tensor part =
        image.narrow(0, window.y, window.height).narrow(1, window.x, window.width);
    example[keys_.out] = size_ ? resized(part) : part.contiguous();
  }

 private:
  static constexpr double kMaxRatio = 1000;

  at::Tensor decode_window(std::span<const uint8_t> bytes, Rng& rng) const {
    const int orientation = exif_ ? exif_orientation(bytes) : 1;
    // Draws a window in the upright image and returns where it is in the stored one.
    const auto draw = [&](const Size& stored) {
      const Size upright = upright_size(stored, orientation);
      const Window window = sample_crop_window(upright.height, upright.width, range_, rng);
      return stored_window(window, stored, orientation);
    };
    if (image_format(bytes) == "JPEG") {
      const JpegSize size = jpeg_size(bytes);
      const Window window = draw({size.height, size.width});
      return turn_upright(decode_jpeg_crop(bytes, window, 3, false), orientation);
    }
    const at::Tensor whole = decode_image(bytes, 3, false);
    const Window window = draw({whole.size(0), whole.size(1)});
    return turn_upright(whole.narrow(0, window.y, window.height).narrow(1, window.x, window.width),
                        orientation);
  }

  // The pixels of each row of `image` must be contiguous.
  at::Tensor resized(const at::Tensor& image) const {
    const Resizer resizer(resize_.method, resize_.antialias, {image.size(0), image.size(1)}, *size_,
                          3);
    at::Tensor out = at::empty({size_->height, size_->width, 3}, at::kByte);
    resizer.run(image.const_data_ptr<uint8_t>(), image.stride(0), out.mutable_data_ptr<uint8_t>());
    return out;
  }

  const std::optional<Size> size_;
  CropRange range_;
  ResizeOptions resize_;
  bool exif_ = false;
  InOutKeys keys_;
};

const Register<Op, DecodeJpegAndInceptionCrop> registered_decode_jpeg_and_inception_crop(
    "decode_jpeg_and_inception_crop");

}  // namespace
}  // namespace bv
