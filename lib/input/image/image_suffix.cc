#include "lib/input/image/image_suffix.h"

#include <algorithm>
#include <cctype>

namespace bv {

bool has_image_suffix(const std::string& name) {
  const std::string suffix = suffix_of(name);
  return suffix == ".jpg" || suffix == ".jpeg" || suffix == ".png" || suffix == ".webp";
}

bool has_other_image_suffix(const std::string& name) {
  const std::string suffix = suffix_of(name);
  return suffix == ".gif" || suffix == ".bmp" || suffix == ".tif" || suffix == ".tiff";
}

std::string suffix_of(const std::string& name) {
  constexpr size_t kLongest = 10;
  const size_t dot = name.rfind('.');
  if (dot == std::string::npos || name.size() - dot > kLongest) return "";
  std::string suffix = name.substr(dot);
  for (char& c : suffix) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const auto plain = [](unsigned char c) { return std::isalnum(c) != 0; };
  return std::all_of(suffix.begin() + 1, suffix.end(), plain) ? suffix : "";
}

}  // namespace bv
