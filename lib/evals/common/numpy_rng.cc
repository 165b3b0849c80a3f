#include "lib/evals/common/numpy_rng.h"

#include <array>
#include <bit>
#include <utility>

#include "lib/util/error.h"

namespace bv {
namespace {

constexpr int kPool = 4;  // words in the pool of a SeedSequence

constexpr unsigned __int128 kMultiplier =
    (static_cast<unsigned __int128>(0x2360ED051FC65DA4) << 64) | 0x4385DF649FCCF645;

// numpy/random/bit_generator.pyx: SeedSequence(seed).generate_state(4, uint64).
class SeedSequence {
 public:
  explicit SeedSequence(uint64_t seed) {
    const uint32_t entropy[kPool] = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32),
                                     0, 0};
    for (int i = 0; i < kPool; ++i) pool_[i] = hash(entropy[i]);
    for (int from = 0; from < kPool; ++from) {
      for (int to = 0; to < kPool; ++to) {
        if (from != to) pool_[to] = mix(pool_[to], hash(pool_[from]));
      }
    }
  }

  std::array<uint64_t, 4> state() const {
    std::array<uint64_t, 4> words{};
    uint32_t constant = 0x8B51F9DD;
    for (int i = 0; i < 8; ++i) {
      uint32_t word = pool_[i % kPool] ^ constant;
      constant *= 0x58F38DED;
      word *= constant;
      word ^= word >> 16;
      words[i / 2] |= static_cast<uint64_t>(word) << (32 * (i % 2));
    }
    return words;
  }

 private:
  uint32_t hash(uint32_t value) {
    value ^= constant_;
    constant_ *= 0x931E8875;
    value *= constant_;
    return value ^ (value >> 16);
  }
  static uint32_t mix(uint32_t x, uint32_t y) {
    const uint32_t result = 0xCA01F9DD * x - 0x4973F715 * y;
    return result ^ (result >> 16);
  }

  uint32_t constant_ = 0x43B0D7E5;
  std::array<uint32_t, kPool> pool_{};
};

unsigned __int128 join_halves(uint64_t high, uint64_t low) {
  return (static_cast<unsigned __int128>(high) << 64) | low;
}

}  // namespace

NumpyRng::NumpyRng(uint64_t seed) {
  const std::array<uint64_t, 4> words = SeedSequence(seed).state();
  increment_ = (join_halves(words[2], words[3]) << 1) | 1;
  state_ = (increment_ + join_halves(words[0], words[1])) * kMultiplier + increment_;
}

uint64_t NumpyRng::bits64() {
  state_ = state_ * kMultiplier + increment_;
  const auto high = static_cast<uint64_t>(state_ >> 64), low = static_cast<uint64_t>(state_);
  return std::rotr(high ^ low, static_cast<int>(high >> 58));
}

uint32_t NumpyRng::bits32() {
  if (std::exchange(has_spare_, false)) return spare_;
  const uint64_t bits = bits64();
  spare_ = static_cast<uint32_t>(bits >> 32);
  has_spare_ = true;
  return static_cast<uint32_t>(bits);
}

uint32_t NumpyRng::up_to(uint32_t most) {
  const uint32_t mask = most == 0 ? 0 : ~uint32_t{0} >> std::countl_zero(most);
  uint32_t value = bits32() & mask;
  while (value > most) value = bits32() & mask;
  return value;
}

void NumpyRng::permute(std::vector<int64_t>& values) {
  check(values.size() < (uint64_t{1} << 32), "a permutation of {} values", values.size());
  for (size_t i = values.size(); i-- > 1;) {
    std::swap(values[i], values[up_to(static_cast<uint32_t>(i))]);
  }
}

}  // namespace bv
