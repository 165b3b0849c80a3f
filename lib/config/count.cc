#include "lib/config/count.h"

#include <cstdint>

namespace bv {

int read_count(const Config& config, const char* key, int least, int fallback,
               std::source_location where) {
  const auto value = config.get<int64_t>(key, fallback, where);
  if (value < least || value > 4096) {
    config.problem(key, fmt::format("must be between {} and 4096, got {}", least, value));
    return fallback;
  }
  return static_cast<int>(value);
}

}  // namespace bv
