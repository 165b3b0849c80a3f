// Philox compared with its published vectors, distributions with their moments.
#include "lib/util/rng.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <vector>

namespace bv::test {

using Words = std::array<uint32_t, 4>;

// Random123's kat_vectors, lines "philox4x32 10".
TEST_CASE("philox4x32-10 gives the published answers") {
  CHECK(philox({0, 0, 0, 0}, {0, 0}) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  const uint32_t f = 0xffffffff;
  CHECK(philox({f, f, f, f}, {f, f}) == Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("a stream is addressed by seed, purpose and index") {
  const auto first = [](uint64_t seed, Purpose purpose, uint64_t index) {
    return Rng(seed, purpose, index).bits64();
  };
  std::set<uint64_t> seen;
  for (const uint64_t seed : {0ull, 1ull, 1ull << 32}) {
    for (const Purpose purpose : {Purpose::augment, Purpose::shuffle, Purpose::init}) {
      for (const uint64_t index : {0ull, 1ull, 1ull << 32}) {
        CHECK(first(seed, purpose, index) == first(seed, purpose, index));
        seen.insert(first(seed, purpose, index));
      }
    }
  }
  CHECK(seen.size() == 27);
  // The stream's definition: counter {block, purpose, index low, index high}, key {seed low, high}.
  Rng rng(0x0000000200000003, Purpose::mixup, 0x0000000500000004);
  for (uint32_t block = 0; block < 2; ++block) {
    for (const uint32_t word : philox({block, 3, 4, 5}, {3, 2})) CHECK(rng.bits() == word);
  }
}

namespace {

struct Moments {
  double mean = 0, variance = 0;
};

template <class Draw>
Moments moments(Draw draw, int n = 20000) {
  double sum = 0, squares = 0;
  for (int i = 0; i < n; ++i) {
    const double x = draw();
    sum += x;
    squares += x * x;
  }
  return {sum / n, squares / n - sum / n * (sum / n)};
}

}  // namespace

TEST_CASE("draws have the moments of their distributions") {
  Rng rng(7, Purpose::augment, 0);
  const Moments uniform = moments([&] { return rng.uniform(-1, 3); });
  CHECK(uniform.mean == Approx(1).margin(0.04));
  CHECK(uniform.variance == Approx(16.0 / 12).epsilon(0.04));
  const Moments normal = moments([&] { return rng.normal(); });
  CHECK(normal.mean == Approx(0).margin(0.03));
  CHECK(normal.variance == Approx(1).epsilon(0.05));
  for (const double shape : {0.2, 1.0, 4.5}) {
    const Moments gamma = moments([&] { return rng.gamma(shape); });
    CHECK(gamma.mean == Approx(shape).epsilon(0.08));
    CHECK(gamma.variance == Approx(shape).epsilon(0.15));
  }
  for (const double p : {0.2, 1.0}) {  // Beta(p, p): mean 1/2, variance 1 / (4 (2p + 1))
    const Moments beta = moments([&] { return rng.beta(p, p); });
    CHECK(beta.mean == Approx(0.5).margin(0.015));
    CHECK(beta.variance == Approx(1 / (4 * (2 * p + 1))).epsilon(0.05));
  }
  const Moments tiny = moments([&] { return rng.beta(1e-5, 1e-5); });
  CHECK(tiny.mean == Approx(0.5).margin(0.02));
}

TEST_CASE("below is uniform over its range") {
  Rng rng(3, Purpose::shuffle, 1);
  std::vector<int> counts(7);
  for (int i = 0; i < 14000; ++i) {
    const int64_t k = rng.below(7);
    REQUIRE(k >= 0);
    REQUIRE(k < 7);
    ++counts[k];
  }
  for (const int count : counts) CHECK(std::abs(count - 2000) < 200);
  CHECK(rng.below(1) == 0);
  int high = 0;
  for (int i = 0; i < 1000; ++i) high += rng.below(int64_t{3} << 61) >= int64_t{3} << 60;
  CHECK(std::abs(high - 500) < 80);  // a modulo would give two thirds to the lower half
}

TEST_CASE("uniform stays below one") {
  Rng rng(0, Purpose::init, 0);
  for (int i = 0; i < 10000; ++i) {
    const double u = rng.uniform();
    REQUIRE(u >= 0);
    REQUIRE(u < 1);
  }
}

// XXH3_64bits of the empty text with seed 0, from xxHash's own test vectors.
TEST_CASE("hash64 is XXH3") { CHECK(hash64("") == 0x2d06800538d394c2ull); }

}  // namespace bv::test
