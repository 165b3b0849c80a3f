#include "lib/util/file_name.h"

namespace bv {

bool is_file_name(std::string_view name) {
  constexpr size_t kLongest = 64;
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.@+";
  return !name.empty() && name.size() <= kLongest && name[0] != '.' &&
         name.find_first_not_of(kAllowed) == std::string_view::npos;
}

}  // namespace bv
