// Counter-based random numbers (lib/util/philox.h).
//
// Rng(seed, purpose, index) always produces the same stream. The index is, for example, a step or
// the position of an example in the training stream. Generators share no state: the numbers that an
// example gets depend neither on threads, nor on other examples, nor on a restart.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "lib/util/philox.h"

namespace bv {

// What a stream is used for. Never change a value: runs with the same seed would then differ. New
// purposes get new values.
enum class Purpose : uint32_t {
  augment = 1,
  shuffle = 2,
  mixup = 3,
  dropout = 4,
  init = 5,
  synthetic = 6,
  split = 7,
  alternate = 8
};

// Returns the XXH3 hash of `text`, for example as the stream index of a named parameter.
uint64_t hash64(std::string_view text);

// Which pass over the data the random numbers of an example are for.
struct Visit {
  int64_t example = 0;  // in its data set
  int64_t pass = 0;     // from 0
};

class Rng {
 public:
  Rng(uint64_t seed, Purpose purpose, uint64_t index, Visit visit = {});

  uint32_t bits();  // 32 uniform bits
  uint64_t bits64();
  double uniform();  // in [0, 1), with 53 random bits
  double uniform(double low, double high);
  int64_t below(int64_t n);         // uniform integer in [0, n), unbiased; n >= 1
  double normal();                  // standard normal, by Box-Muller
  double gamma(double shape);       // Gamma(shape, 1), by Marsaglia and Tsang 2000; shape > 0
  double beta(double a, double b);  // Beta(a, b)
  // Alternates between true and false from pass to pass. In the first pass it is a fair coin that
  // depends on the seed and on visit.example. Draws nothing from the stream.
  bool alternate() const;

 private:
  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 4> counter_;  // [block, purpose, index low, index high]
  std::array<uint32_t, 4> block_{};
  int used_ = 4;
  double spare_ = 0;
  bool has_spare_ = false;
  Visit visit_;
};

}  // namespace bv
