#pragma once

#include <cstdint>
#include <span>

namespace bv {

// Returns whether an encoded image has transparency, which decoding drops: a PNG with an alpha
// channel or a transparent colour, or a WebP with alpha. Does not throw; false for damaged files.
bool has_alpha(std::span<const uint8_t> bytes);

}  // namespace bv
