// numpy.random.default_rng(seed).permutation(), number by number (reference 13.4.1).
#pragma once

#include <cstdint>
#include <vector>

namespace bv {

// PCG64 (O'Neill 2014: 128-bit LCG, XSL-RR output), seeded by NumPy's SeedSequence.
class NumpyRng {
 public:
  explicit NumpyRng(uint64_t seed);

  // Shuffles in place: Fisher-Yates from the end.
  void permute(std::vector<int64_t>& values);

  unsigned __int128 state() const { return state_; }
  unsigned __int128 increment() const { return increment_; }

 private:
  uint64_t bits64();
  uint32_t bits32();              // the low half of a 64-bit output, then its high half
  uint32_t up_to(uint32_t most);  // uniform in [0, most], by masking and rejection
  unsigned __int128 state_, increment_;
  uint32_t spare_ = 0;
  bool has_spare_ = false;
};

}  // namespace bv
