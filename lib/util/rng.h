// Counter-based random numbers (lib/util/philox.h).
//
// A generator is addressed, never advanced by others: Rng(seed, purpose, index) is the stream of
// that purpose at that index (an example's position in the training stream, a step, ...), so the
// numbers an example sees do not depend on threads, on other examples or on a restart.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "lib/util/philox.h"

namespace bv {

// What a stream is for. Values are part of the promise that a seed repeats a run: only add.
enum class Purpose : uint32_t {
  augment = 1,
  shuffle = 2,
  mixup = 3,
  dropout = 4,
  init = 5,
  synthetic = 6,
  split = 7
};

// A 64-bit key for a string (a parameter's name): XXH3.
uint64_t hash64(std::string_view text);

class Rng {
 public:
  Rng(uint64_t seed, Purpose purpose, uint64_t index);

  uint32_t bits();  // uniform 32 bits
  uint64_t bits64();
  double uniform();  // [0, 1), 53 bits
  double uniform(double low, double high);
  int64_t below(int64_t n);         // uniform integer in [0, n), n >= 1, unbiased
  double normal();                  // standard normal, Box-Muller
  double gamma(double shape);       // Gamma(shape, 1), shape > 0; Marsaglia and Tsang 2000
  double beta(double a, double b);  // Beta(a, b)

 private:
  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 4> counter_;  // [block, purpose, index low, index high]
  std::array<uint32_t, 4> block_{};
  int used_ = 4;
  double spare_ = 0;
  bool has_spare_ = false;
};

}  // namespace bv
