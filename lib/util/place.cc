#include "lib/util/place.h"

#include <fmt/format.h>

#include "lib/util/printable.h"

namespace bv {

std::string Place::text() const {
  const std::string name = printable(file, std::string::npos);
  return line > 0 ? fmt::format("{}:{}:{}", name, line, column) : name;
}

}  // namespace bv
