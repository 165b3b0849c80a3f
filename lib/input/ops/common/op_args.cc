#include "lib/input/ops/common/op_args.h"

#include "lib/util/limits.h"

namespace bv {
namespace {

int64_t checked_side(const Config& args, std::string_view key, int64_t side, int64_t most) {
  if (side >= 1 && side <= most) return side;
  args.problem(key, side < 1 ? fmt::format("must be positive, got {}", side)
                             : fmt::format("must be at most {}, got {}", most, side));
  return 1;
}

void warn_of_fraction(const Config& args, std::string_view key, double percent) {
  args.warn(key, fmt::format("is in percent: {0:.6g} is {1:.6g} of the image's area; if it is a "
                             "fraction, as in torchvision, write {2:.6g}",
                             percent, percent / 100, percent * 100));
}

}  // namespace

int64_t read_side(const Config& args, std::string_view key, int64_t most) {
  return checked_side(args, key, args.get<int64_t>(key), most);
}

Size read_size(const Config& args, std::string_view key) {
  if (!args.is_list(key)) {
    const int64_t side = read_side(args, key, limits::kSquareSide);
    return {side, side};
  }
  const auto sides = args.get<std::vector<int64_t>>(key);
  if (sides.size() != 2) {
    args.fail(key,
              fmt::format("must be a number or [height, width], got {} numbers", sides.size()));
  }
  const Size size{checked_side(args, key, sides[0], limits::kImageSide),
                  checked_side(args, key, sides[1], limits::kImageSide)};
  if (size.height * size.width > limits::kImagePixels) {
    args.problem(key, fmt::format("must be at most {} pixels in total, got [{}, {}]",
                                  limits::kImagePixels, sides[0], sides[1]));
  }
  return size;
}

std::optional<Size> maybe_size(const Config& args, std::string_view key) {
  if (args.is_list(key)) return read_size(args, key);
  const auto side = args.maybe<int64_t>(key);
  if (!side) return std::nullopt;
  const int64_t checked = checked_side(args, key, *side, limits::kSquareSide);
  return Size{checked, checked};
}

ResizeOptions read_resize_options(const Config& args, std::string_view method, bool antialias) {
  const std::string name = args.word("method", method, resize_method_names());
  return {resize_method(name), args.get<bool>("antialias", antialias)};
}

CropRange read_crop_area(const Config& args) {
  const auto area_min = args.get<double>("area_min", 5);
  const auto area_max = args.get<double>("area_max", 100);
  if (!(area_max > 0 && area_max <= 100)) {
    args.problem("area_max",
                 fmt::format("must be above 0 and at most 100 (percent), got {}", area_max));
  } else if (!(area_min >= 0 && area_min <= area_max)) {
    args.problem("area_min", fmt::format("must be within 0 .. area_max = {} (percent), got {}",
                                         area_max, area_min));
  } else {
    if (area_min > 0 && area_min < 1) warn_of_fraction(args, "area_min", area_min);
    if (area_max <= 1) warn_of_fraction(args, "area_max", area_max);
  }
  return {.area_min = area_min / 100, .area_max = area_max / 100};
}

std::vector<std::string> maybe_strings(const Config& args, std::string_view key) {
  if (args.is_list(key)) return args.get<std::vector<std::string>>(key);
  const auto one = args.maybe<std::string>(key);
  return one ? std::vector<std::string>{*one} : std::vector<std::string>{};
}

}  // namespace bv
