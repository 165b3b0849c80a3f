#include "lib/input/example.h"

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
  return type == at::kFloat ? "" : "gives an 8-bit 'image'; add value_range(-1, 1)";
}

}  // namespace bv
