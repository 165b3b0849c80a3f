#include "lib/input/example.h"

#include <fmt/format.h>

#include "lib/device/dtype_name.h"

namespace bv {

Example copy_of(const Example& example) {
  Example copy;
  for (const auto& [name, value] : example) copy[name] = value.clone();
  return copy;
}

std::string names_of(const Example& example) {
  std::string names;
  for (const auto& [name, value] : example) names += (names.empty() ? "" : ", ") + name;
  return names;
}

std::string image_fault(int64_t dimensions, at::ScalarType type) {
  if (dimensions == 1) return "gives an encoded image; start it with 'decode'";
  if (dimensions != 3) return "gives an 'image' that is not (height, width, channels)";
  if (type == at::kFloat) return "";
  if (type == at::kByte) return "gives an 8-bit 'image'; add value_range(-1, 1)";
  const std::string is = fmt::format("gives an 'image' of type {}; ", dtype_name(type));
  if (at::isFloatingType(type))
    return is + "add value_range(-1, 1, -1, 1) if its values are from -1 to 1";
  return is + "add value_range(-1, 1, MIN, MAX) with its least and largest value";
}

}  // namespace bv
