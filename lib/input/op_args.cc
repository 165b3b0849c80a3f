#include "lib/input/op_args.h"

namespace bv {
namespace {

int64_t checked_side(const Config& args, std::string_view key, int64_t side) {
  if (side >= 1 && side <= kMaxSide) return side;
  args.problem(key, side < 1 ? fmt::format("must be positive, got {}", side)
                             : fmt::format("must be at most {}, got {}", kMaxSide, side));
  return 1;
}

}  // namespace

int64_t read_side(const Config& args, std::string_view key) {
  return checked_side(args, key, args.get<int64_t>(key));
}

Size read_size(const Config& args, std::string_view key) {
  if (!args.is_list(key)) {
    const int64_t side = read_side(args, key);
    return {side, side};
  }
  const auto sides = args.get<std::vector<int64_t>>(key);
  if (sides.size() != 2) {
    args.fail(key,
              fmt::format("must be a number or [height, width], got {} numbers", sides.size()));
  }
  return {checked_side(args, key, sides[0]), checked_side(args, key, sides[1])};
}

std::optional<Size> maybe_size(const Config& args, std::string_view key) {
  if (args.is_list(key)) return read_size(args, key);
  const auto side = args.maybe<int64_t>(key);
  if (!side) return std::nullopt;
  const int64_t checked = checked_side(args, key, *side);
  return Size{checked, checked};
}

ResizeKind read_resize_kind(const Config& args, std::string_view method, bool antialias) {
  const std::string name = args.word("method", method, resize_method_names());
  return {resize_method(name), args.get<bool>("antialias", antialias)};
}

}  // namespace bv
