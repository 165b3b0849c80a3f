#pragma once

#include <cstdint>
#include <vector>

namespace bv {

// numpy.random.default_rng(seed): PCG64 (O'Neill 2014: a 128-bit LCG with XSL-RR output), seeded by
// NumPy's SeedSequence. big_vision chooses few-shot examples with it.
class NumpyRng {
 public:
  explicit NumpyRng(uint64_t seed);

  // Shuffles in place, exactly as NumPy's Generator.permutation(): Fisher-Yates from the end.
  void permute(std::vector<int64_t>& values);

 private:
  uint64_t bits64();
  // Returns the low half of a 64-bit output, and at the next call its high half.
  uint32_t bits32();
  // Uniform in [0, most], by masking and rejection.
  uint32_t up_to(uint32_t most);

  unsigned __int128 state_, increment_;
  uint32_t spare_ = 0;
  bool has_spare_ = false;
};

}  // namespace bv
