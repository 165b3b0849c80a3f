// Arguments that several ops have. What is out of range is recorded as a problem at the argument.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lib/config/config.h"
#include "lib/input/image/crop.h"
#include "lib/input/image/resize.h"

namespace bv {

constexpr int64_t kMaxSide = 65536;  // of an image an op makes

// Required; 1 .. kMaxSide.
int64_t read_side(const Config& args, std::string_view key);
// One number for both sides, or [height, width]; each 1 .. kMaxSide.
Size read_size(const Config& args, std::string_view key);                  // required
std::optional<Size> maybe_size(const Config& args, std::string_view key);  // None: not given

struct ResizeKind {
  ResizeMethod method = ResizeMethod::bilinear;
  bool antialias = false;
};
// `method` and `antialias`, in this order.
ResizeKind read_resize_kind(const Config& args, std::string_view method, bool antialias);

// `area_min` and `area_max` (percent; 5 and 100), in this order.
CropRange read_crop_area(const Config& args);

// One string, or a list of them; empty where it is absent.
std::vector<std::string> maybe_strings(const Config& args, std::string_view key);

// A value of any kind: args.get<Scalar>("value").
using Scalar = std::variant<bool, int64_t, double, std::string>;

}  // namespace bv
