#include "lib/util/rng.h"

#include <xxhash.h>

#include <cmath>
#include <limits>
#include <numbers>

namespace bv {

uint64_t hash64(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

Rng::Rng(uint64_t seed, Purpose purpose, uint64_t index, Visit visit)
    : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)},
      counter_{0, static_cast<uint32_t>(purpose), static_cast<uint32_t>(index),
               static_cast<uint32_t>(index >> 32)},
      visit_(visit) {}

uint32_t Rng::bits() {
  if (used_ == 4) {
    block_ = philox(counter_, key_);
    ++counter_[0];
    used_ = 0;
  }
  return block_[used_++];
}

uint64_t Rng::bits64() {
  const uint64_t high = bits();
  return high << 32 | bits();
}

double Rng::uniform() { return static_cast<double>(bits64() >> 11) * 0x1p-53; }

double Rng::uniform(double low, double high) { return low + (high - low) * uniform(); }

int64_t Rng::below(int64_t n) {
  // Lemire 2019, "Fast random integer generation in an interval", with 64-bit draws.
  const auto range = static_cast<uint64_t>(n);
  unsigned __int128 product = static_cast<unsigned __int128>(bits64()) * range;
  const uint64_t threshold = (0 - range) % range;
  while (static_cast<uint64_t>(product) < threshold) {
    product = static_cast<unsigned __int128>(bits64()) * range;
  }
  return static_cast<int64_t>(product >> 64);
}

double Rng::normal() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_;
  }
  const double radius = std::sqrt(-2.0 * std::log1p(-uniform()));
  const double angle = 2.0 * std::numbers::pi * uniform();
  spare_ = radius * std::sin(angle);
  has_spare_ = true;
  return radius * std::cos(angle);
}

double Rng::gamma(double shape) {
  if (shape < 1) {  // Gamma(a) = Gamma(a + 1) * U^(1/a)
    const double boosted = gamma(shape + 1);
    return boosted * std::pow(1.0 - uniform(), 1.0 / shape);
  }
  const double d = shape - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  while (true) {
    const double x = normal();
    const double v = std::pow(1.0 + c * x, 3);
    if (v <= 0) continue;
    if (std::log1p(-uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

bool Rng::alternate() const {
  const uint64_t seed = uint64_t{key_[1]} << 32 | key_[0];
  Rng first(seed, Purpose::alternate, static_cast<uint64_t>(visit_.example));
  return (first.bits() ^ static_cast<uint32_t>(visit_.pass)) & 1;
}

double Rng::beta(double a, double b) {
  const double x = gamma(a);
  const double y = gamma(b);
  // For very small shapes both underflow. The limit is a coin flip with probability a / (a + b)
  // of 1.
  if (x + y < std::numeric_limits<double>::min()) return uniform() * (a + b) < a ? 1.0 : 0.0;
  return x / (x + y);
}

}  // namespace bv
