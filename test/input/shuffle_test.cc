#include "lib/input/shuffle.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <vector>

#include "lib/util/error.h"

namespace {

using bv::shuffle;

std::vector<int64_t> permutation(uint64_t seed, int64_t epoch, int64_t n) {
  std::vector<int64_t> result(n);
  for (int64_t i = 0; i < n; ++i) result[i] = shuffle(seed, epoch, i, n);
  return result;
}

bool is_permutation(const std::vector<int64_t>& values) {
  std::vector<bool> seen(values.size());
  for (const int64_t value : values) {
    if (value < 0 || value >= std::ssize(values) || seen[value]) return false;
    seen[value] = true;
  }
  return true;
}

// Returns by how many standard deviations a chi-square statistic of equally likely cells exceeds
// its mean (normal approximation; cells - 1 degrees of freedom).
double chi_square_z(const std::vector<int64_t>& counts) {
  double total = 0;
  for (const int64_t count : counts) total += static_cast<double>(count);
  const double cells = static_cast<double>(counts.size());
  double chi = 0;
  for (const int64_t count : counts) {
    chi += std::pow(static_cast<double>(count) - total / cells, 2) / (total / cells);
  }
  return (chi - (cells - 1)) / std::sqrt(2 * (cells - 1));
}

TEST_CASE("shuffle is a bijection of [0, n)") {
  for (int64_t n = 1; n <= 300; ++n) {
    for (const int64_t epoch : {0, 77}) {
      INFO("n " << n << ", epoch " << epoch);
      REQUIRE(is_permutation(permutation(5, epoch, n)));
    }
  }
  for (const int64_t n : {1023, 1024, 1025, 65537, 100003}) {
    INFO("n " << n);
    REQUIRE(is_permutation(permutation(123456789012345, 3, n)));
  }
}

TEST_CASE("shuffle of large sets stays in range and does not repeat") {
  for (const int64_t n : {int64_t{1} << 40, (int64_t{1} << 40) + 1, int64_t{1} << 62}) {
    std::map<int64_t, int64_t> from;
    for (int64_t k = 0; k < 2000; ++k) {
      const int64_t i = k < 1000 ? k : n - 1 - k;
      const int64_t to = shuffle(1, 2, i, n);
      REQUIRE(to >= 0);
      REQUIRE(to < n);
      REQUIRE(from.emplace(to, i).second);
    }
  }
}

TEST_CASE("shuffle refuses an index outside the set, for which it might not end") {
  for (const int64_t i : {int64_t{-905}, int64_t{-1}, int64_t{1437}, int64_t{1} << 40}) {
    INFO("i " << i);
    CHECK_THROWS_AS(shuffle(1, 2, i, 1437), bv::Error);
  }
}

// A seed determines the order of a run, and sorted data sets are sliced by such a permutation, so
// these numbers must never change. This code produced them: only stability is tested.
TEST_CASE("shuffle gives the same order as in all versions") {
  CHECK(permutation(0, 0, 10) == std::vector<int64_t>{1, 9, 4, 0, 3, 6, 7, 8, 5, 2});
  CHECK(shuffle(42, 7, 1234, 60000) == 8841);
  CHECK(shuffle(42, int64_t{1} << 33, 1234, int64_t{1} << 40) == 795030443893);
}

TEST_CASE("shuffle differs between epochs and seeds") {
  const auto base = permutation(1, 0, 1000);
  const auto same_places = [&](const std::vector<int64_t>& other) {
    int same = 0;
    for (size_t i = 0; i < base.size(); ++i) same += base[i] == other[i];
    return same;  // expected: 1
  };
  CHECK(same_places(permutation(1, 1, 1000)) < 8);
  CHECK(same_places(permutation(2, 0, 1000)) < 8);
  CHECK(same_places(permutation(1 + (uint64_t{1} << 32), 0, 1000)) < 8);
  CHECK(same_places(permutation(1, int64_t{1} << 32, 1000)) < 8);
}

TEST_CASE("every example is equally likely at every position") {
  for (const int64_t n : {3, 10, 64, 100}) {
    const int64_t epochs = 10000;
    for (const int64_t position : {int64_t{0}, n / 2, n - 1}) {
      std::vector<int64_t> counts(n);
      for (int64_t epoch = 0; epoch < epochs; ++epoch) ++counts[shuffle(9, epoch, position, n)];
      INFO("n " << n << ", position " << position);
      CHECK(std::abs(chi_square_z(counts)) < 4);
    }
  }
}

TEST_CASE("all orders of a few examples are equally likely") {
  for (const int64_t n : {2, 3, 4}) {
    std::map<std::vector<int64_t>, int64_t> seen;
    for (int64_t epoch = 0; epoch < 20000; ++epoch) ++seen[permutation(7, epoch, n)];
    std::vector<int64_t> counts;
    for (const auto& [order, count] : seen) counts.push_back(count);
    REQUIRE(std::ssize(counts) == (n == 2 ? 2 : n == 3 ? 6 : 24));
    CHECK(std::abs(chi_square_z(counts)) < 4);
  }
}

// The distance of neighbours (cyclic; in a random permutation it is uniform over 1..n-1) and their
// order.
TEST_CASE("neighbours in the stream are as far apart as in a random order") {
  for (const int64_t n : {10, 17, 100, 1000, 1200, 3600}) {
    const int64_t epochs = 100000 / n;
    std::vector<int64_t> distances(n - 1);
    std::vector<int64_t> order(2);
    for (int64_t epoch = 0; epoch < epochs; ++epoch) {
      const auto p = permutation(11, epoch, n);
      for (int64_t i = 0; i + 1 < n; ++i) ++distances[(p[i + 1] - p[i] + n) % n - 1];
      for (int64_t i = 0; i + 1 < n; i += 2) ++order[p[i] < p[i + 1]];
    }
    INFO("n " << n);
    CHECK(std::abs(chi_square_z(distances)) < 4);
    CHECK(chi_square_z(order) < 6);
  }
}

}  // namespace
