// Reads the key `cache` of `input`.
#pragma once

#include <optional>
#include <vector>

#include "lib/config/config.h"
#include "lib/input/cache/decoded_images.h"

namespace bv {

// Returns the options, or nullopt if `input` has no cache. Records problems with the config.
std::optional<ImageCacheOptions> read_image_cache(const Config& input);

// Throws a problem of input.cache if no pp begins by decoding images, or if a pp decodes images
// only after its first op: the cache would silently keep nothing.
void check_image_cache(const Config& input, const std::vector<const Pipeline*>& pps);

}  // namespace bv
