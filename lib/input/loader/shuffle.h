// shuffle(seed, epoch, i): a bijection of [0, n), computed on demand, so that no permutation is
// stored and any position of any epoch can be asked for at once.
#pragma once

#include <cstdint>

namespace bv {

// A Feistel network over ceil(log2 n) bits with alternating halves, 6 Philox rounds (16 for
// n <= 1024), and cycle walking (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002).
// 0 <= i < n; returns a number in [0, n).
int64_t shuffle(uint64_t seed, int64_t epoch, int64_t i, int64_t n);

}  // namespace bv
