#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace bv {

// Returns the 64-bit HighwayHash of `bytes` (Alakuijala, Cox and Wassenberg 2016, "Fast keyed
// hash/pseudo-random function using SIMD multiply and permute"). Riegeli and ArrayRecord files use
// it as their checksum.
uint64_t highway_hash(const std::array<uint64_t, 4>& key, std::span<const uint8_t> bytes);

}  // namespace bv
