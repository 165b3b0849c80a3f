// Readers of arguments that several ops have. Values out of range are recorded as problems at the
// argument.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lib/config/config.h"
#include "lib/input/image/crop.h"
#include "lib/input/image/geometry.h"
#include "lib/input/image/resizer.h"

namespace bv {

constexpr int64_t kMaxSide = 65536;  // the longest side of an image that an op makes

// Returns a required side in pixels, 1 .. kMaxSide.
int64_t read_side(const Config& args, std::string_view key);
// Return a size: one number for both sides, or [height, width]; each 1 .. kMaxSide.
Size read_size(const Config& args, std::string_view key);                  // required
std::optional<Size> maybe_size(const Config& args, std::string_view key);  // nullopt if absent

struct ResizeOptions {
  ResizeMethod method = ResizeMethod::bilinear;
  bool antialias = false;
};
// Reads `method` and `antialias`, in this order, with these defaults.
ResizeOptions read_resize_options(const Config& args, std::string_view method, bool antialias);

// Reads `area_min` and `area_max` in percent (default 5 and 100), in this order.
CropRange read_crop_area(const Config& args);

// Returns one string or a list of strings; empty if the key is absent.
std::vector<std::string> maybe_strings(const Config& args, std::string_view key);

// A value of any kind: args.get<Scalar>("value").
using Scalar = std::variant<bool, int64_t, double, std::string>;

}  // namespace bv
