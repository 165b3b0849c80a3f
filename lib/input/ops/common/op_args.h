// Readers of arguments that several ops have. Values out of range are recorded as problems at the
// argument.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lib/config/config.h"
#include "lib/config/key_table.h"
#include "lib/input/image/crop.h"
#include "lib/input/image/geometry.h"
#include "lib/input/image/resizer.h"
#include "lib/util/limits.h"

namespace bv {

// Returns a required side in pixels, 1 .. `most`.
int64_t read_side(const Config& args, std::string_view key, int64_t most);
// Return a size within the limits of lib/input/image/geometry.h: one number for both sides, or
// [height, width].
Size read_size(const Config& args, std::string_view key);                  // required
std::optional<Size> maybe_size(const Config& args, std::string_view key);  // nullopt if absent
// KeyText::type of a size.
inline constexpr std::string_view kSizeType = "int 1..16384 | [int 1..65500, int 1..65500]";
static_assert(limits::kSquareSide == 16384 && limits::kImageSide == 65500);

struct ResizeOptions {
  ResizeMethod method = ResizeMethod::bilinear;
  bool antialias = false;
};
// Reads `method` and `antialias`, in this order, with these defaults.
ResizeOptions read_resize_options(const Config& args, std::string_view method, bool antialias);
// Their rows, with the same defaults.
constexpr std::array<KeyText, 2> resize_option_key_texts(std::string_view method,
                                                         std::string_view antialias) {
  return {{
      {"method",
       "'nearest' | 'bilinear' | 'bicubic' | 'area' | 'lanczos3' | 'lanczos5' | 'gaussian' | "
       "'mitchellcubic'",
       method,
       "Interpolation method. 'bilinear' is fast, 'area' averages pixels and is best for shrinking "
       "photos, and 'nearest' creates no new values, as masks need. 'bicubic' and the others use "
       "more pixels: they are sharper or smoother, and slower."},
      {"antialias", "bool", antialias,
       "If True, images are smoothed when shrunk, which avoids jagged edges and takes more time. "
       "It has no effect when enlarging, or with 'area' and 'nearest'."},
  }};
}

// Reads `area_min` and `area_max` in percent (default 5 and 100), in this order. Warns if they look
// like fractions of the area.
CropRange read_crop_area(const Config& args);
inline constexpr KeyText kCropAreaKeys[] = {
    {"area_min", "float 0..100", "5",
     "Minimum area of the crop in percent of the image's area. It must not be above area_max. "
     "Larger values, such as 25, make the augmentation weaker and cut off fewer objects."},
    {"area_max", "float 0<..100", "100",
     "Maximum area of the crop in percent of the image's area. It must be above 0."},
};
// The row of `size` in the ops that cut out such a window.
inline constexpr KeyText kCropSizeKeys[] = {
    {"size", kSizeType, "none",
     "Size to which the crop is resized, in pixels: one number for both sides, or [height, width], "
     "of at most 268435456 pixels in total. Without it, the crop keeps its random size, and a "
     "later op must resize it."},
};

// Returns one string or a list of strings; empty if the key is absent.
std::vector<std::string> maybe_strings(const Config& args, std::string_view key);

// A value of any kind: args.get<Scalar>("value").
using Scalar = std::variant<bool, int64_t, double, std::string>;

}  // namespace bv
