#include "lib/input/shuffle.h"

#include <bit>

#include "lib/util/error.h"
#include "lib/util/rng.h"

namespace bv {

int64_t shuffle(uint64_t seed, int64_t epoch, int64_t i, int64_t n) {
  check(i >= 0 && i < n, "shuffle: {} of {}", i, n);  // the loop below would not end
  if (n == 1) return 0;
  const int bits = std::bit_width(static_cast<uint64_t>(n - 1));
  const int low_bits = bits / 2;
  const uint32_t low_mask = (uint32_t{1} << low_bits) - 1;
  const uint32_t high_mask = (uint32_t{1} << (bits - low_bits)) - 1;
  const std::array<uint32_t, 2> key{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  // The round number in the upper 16 bits distinguishes these blocks from those of
  // Rng(seed, Purpose::shuffle, ...).
  const auto round_function = [&](uint32_t half, uint32_t round) {
    const uint32_t purpose = static_cast<uint32_t>(Purpose::shuffle) | (round + 1) << 16;
    const auto low = static_cast<uint32_t>(epoch);
    const auto high = static_cast<uint32_t>(static_cast<uint64_t>(epoch) >> 32);
    return philox({half, purpose, low, high}, key)[0];
  };
  // Short halves need more rounds: with 6 rounds, sizes below about 100 fail a chi-square test.
  const uint32_t rounds = bits <= 10 ? 16 : 6;
  auto x = static_cast<uint64_t>(i);
  do {
    auto low = static_cast<uint32_t>(x) & low_mask;
    auto high = static_cast<uint32_t>(x >> low_bits);
    for (uint32_t round = 0; round < rounds; round += 2) {
      high ^= round_function(low, round) & high_mask;
      low ^= round_function(high, round + 1) & low_mask;
    }
    x = static_cast<uint64_t>(high) << low_bits | low;
  } while (x >= static_cast<uint64_t>(n));
  return static_cast<int64_t>(x);
}

}  // namespace bv
