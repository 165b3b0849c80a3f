#include "lib/util/place.h"

#include <fmt/format.h>

#include "lib/util/printable.h"

namespace bv {

std::string Place::text() const {
  const std::string name = printable(file, std::string::npos);
  if (line > 0) return fmt::format("{}:{}:{}", name, line, column);
  return key.empty() ? name : fmt::format("{}: {}", name, printable(key, std::string::npos));
}

}  // namespace bv
