// What the parts of Recipe share when they read a config.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "lib/config/config.h"

namespace bv {

// How many images of each data set a run looks at before it starts, to find their value range.
inline constexpr int64_t kImagesToLookAt = 16;

// Runs `read`, which reads an example. Errors in the data or its ops become problems of the config.
void read_example(const Config& config, std::string_view pp_key, const std::function<void()>& read);
// Returns whether the config has the key `path`, or one that begins like it, under another
// trainer's name or in the wrong place. done() reports that key, so `path` must not be reported as
// missing.
bool given_wrongly(const Config& config, std::string_view path);

}  // namespace bv
