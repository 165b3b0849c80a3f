// shuffle(): a pseudo-random permutation of [0, n) that is computed element by element. No
// permutation is stored, so any position of any epoch is available at once.
#pragma once

#include <cstdint>

namespace bv {

// Returns element i of the permutation of [0, n) for (seed, epoch); 0 <= i < n.
//
// A Feistel network over ceil(log2 n) bits with Philox as the round function (6 rounds, 16 for
// n <= 1024) and cycle walking: J. Black and P. Rogaway, "Ciphers with arbitrary finite domains",
// 2002.
int64_t shuffle(uint64_t seed, int64_t epoch, int64_t i, int64_t n);

}  // namespace bv
