// The op random_affine. Bilinear interpolation; uint8 results are rounded. Draws the angle, the
// scale, the shift down and the shift right, all uniform.
#include <cmath>
#include <numbers>

#include "lib/config/key_table.h"
#include "lib/input/image/affine.h"
#include "lib/input/ops/common/image_op.h"

namespace bv {
namespace {

const KeyTable random_affine_keys(
    "pp: random_affine",
    {"Shifts, rotates and scales the image about its centre, all uniformly at random. 'image' must "
     "be (height, width, channels) of uint8 or float32 and keeps its size and type. It suits small "
     "images such as digits.",
     "random_affine(shift=2, rotate=10, scale=[0.9, 1.1])"},
    {{"shift", "float >= 0", "0",
      "Maximum shift, vertical and horizontal. 1 or more is a number of pixels; below 1 it is a "
      "fraction of the height and of the width."},
     {"rotate", "float 0..180", "0", "Maximum angle in degrees, in either direction."},
     {"scale", "[float > 0, float > 0]", "[1, 1]",
      "Minimum and maximum scale. 2 shows the centre of the image at twice its size, 0.5 the whole "
      "image at half its size."},
     {"fill", "float", "0",
      "Value of pixels from outside the image. For uint8 it must be from 0 to 255."}},
    in_out_key_texts());

class RandomAffine : public ImageOp {
 public:
  explicit RandomAffine(const Config& args)
      : ImageOp("random_affine"),
        shift_(args.get<double>("shift", 0)),
        rotate_(args.get<double>("rotate", 0)),
        scale_(args.get<std::vector<double>>("scale", {1, 1})),
        fill_(args.get<double>("fill", 0)) {
    keys_ = InOutKeys(args);
    if (!(shift_ >= 0)) {
      args.problem("shift", fmt::format("must not be negative, got {}", shift_));
    }
    if (!(rotate_ >= 0 && rotate_ <= 180)) {
      args.problem("rotate", fmt::format("must be within 0 .. 180 (degrees), got {}", rotate_));
    }
    if (scale_.size() != 2 || !(scale_[0] > 0 && scale_[0] <= scale_[1])) {
      args.fail("scale", fmt::format("must be [min, max] with 0 < min <= max, got [{}]",
                                     fmt::join(scale_, ", ")));
    }
  }

  bool is_random() const override { return shift_ > 0 || rotate_ > 0 || scale_[0] < scale_[1]; }

 private:
  at::Tensor map_images(const Images& images, std::span<Rng> rngs) const override {
    require_byte_or_float(images);
    const bool bytes = images.tensor.scalar_type() == at::kByte;
    if (bytes && !(fill_ >= 0 && fill_ <= 255)) {
      throw misuse(fmt::format("is uint8, which can't hold the fill value {}", fill_));
    }
    if (!affine_fits(images.height, images.width, images.channels)) {
      throw bad_example(fmt::format("an image of {}x{} with {} channels is too large",
                                    images.height, images.width, images.channels));
    }
    at::Tensor out = images.like({images.height, images.width});
    for (int64_t i = 0; i < images.count; ++i) {
      const AffineMap map = draw(images.height, images.width, rngs[i]);
      const uint8_t* from = images.bytes(i);
      uint8_t* to = image_bytes(out, i, images.count);
      const auto fill = static_cast<float>(fill_);
      if (bytes) {
        apply_affine(from, images.height, images.width, images.channels, map, fill, to);
      } else {
        apply_affine(reinterpret_cast<const float*>(from), images.height, images.width,
                     images.channels, map, fill, reinterpret_cast<float*>(to));
      }
    }
    return out;
  }

  AffineMap draw(int64_t height, int64_t width, Rng& rng) const {
    const double angle = rng.uniform(-rotate_, rotate_) * std::numbers::pi / 180;
    const double scale = rng.uniform(scale_[0], scale_[1]);
    const double down =
        rng.uniform(-1, 1) * (shift_ < 1 ? shift_ * static_cast<double>(height) : shift_);
    const double right =
        rng.uniform(-1, 1) * (shift_ < 1 ? shift_ * static_cast<double>(width) : shift_);
    // The map from output pixels to input positions: undoes the shift, then the rotation and
    // scaling about the centre.
    const double middle_y = static_cast<double>(height - 1) / 2;
    const double middle_x = static_cast<double>(width - 1) / 2;
    const double c = std::cos(angle) / scale;
    const double s = std::sin(angle) / scale;
    AffineMap map{.xx = c, .xy = s, .x0 = 0, .yx = -s, .yy = c, .y0 = 0};
    map.x0 = middle_x - c * (middle_x + right) - s * (middle_y + down);
    map.y0 = middle_y + s * (middle_x + right) - c * (middle_y + down);
    return map;
  }

  const double shift_, rotate_;
  const std::vector<double> scale_;
  const double fill_;
};

const Register<Op, RandomAffine> registered_random_affine("random_affine");

}  // namespace
}  // namespace bv
