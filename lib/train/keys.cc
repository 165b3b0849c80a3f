#include "lib/train/keys.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "lib/util/pattern.h"

namespace bv {

void ignore_training_keys(const Config& config) {
  for (const Keys& keys : {kRunKeys, kInputKeys, kInitKeys, kTaskKeys, kStepKeys}) {
    for (const std::string_view key : keys) config.mark_read(key);
  }
  for (const auto& [key, instead] : kSupersededKeys) config.mark_read(key);
  for (const std::string_view duration : kLengthKeys) {
    for (const std::string_view unit : kLengthUnits)
      config.mark_read(fmt::format("{}{}", duration, unit));
  }
}

void finish_reading(const Config& config, const Keys& others) {
  ignore_training_keys(config);
  for (const std::string_view key : others) config.mark_read(key);
  config.done();
  throw_problems(config);
}

bool is_harmless(const std::string& key) {
  static const std::vector<Pattern> patterns = [] {
    std::vector<Pattern> all;
    for (const std::string_view pattern : kHarmlessKeys) all.emplace_back(std::string(pattern));
    return all;
  }();
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const Pattern& pattern) { return pattern.matches(key); });
}

}  // namespace bv
