// The check of rates and factors that have no meaning below zero.
#pragma once

#include <string_view>

#include "lib/config/config.h"

namespace bv {

// Records a problem with config[key] unless `value` is at least 0. `what` replaces "it" as the
// subject: "the multiplier of 'head/.*' must not be negative, got -1".
inline void check_not_negative(const Config& config, std::string_view key, double value,
                               std::string_view what = {}) {
  if (value >= 0) return;
  config.problem(
      key, fmt::format("{}{}must not be negative, got {}", what, what.empty() ? "" : " ", value));
}

}  // namespace bv
