#include "lib/train/odd_ranks.h"

#include <catch2/catch.hpp>

namespace bv::test {
namespace {

using Numbers = std::vector<int>;

// Returns the facts of ranks on GPUs of one kind, with one digest each.
std::vector<RankFacts> with_digests(const std::vector<std::string>& digests) {
  std::vector<RankFacts> ranks;
  for (const std::string& digest : digests) ranks.push_back({"H100", "n1", {digest}});
  return ranks;
}

}  // namespace

TEST_CASE("the ranks that differ are those that are not in the majority") {
  CHECK(differing_ranks(with_digests({"5", "5", "5"})).empty());
  CHECK(differing_ranks(with_digests({"5", "-7", "5"})) == Numbers{1});
  CHECK(differing_ranks(with_digests({"6", "5", "5", "7", "5"})) == Numbers{0, 3});
  // Nobody knows which of them are right.
  CHECK(differing_ranks(with_digests({"5", "6"})) == Numbers{0, 1});
  CHECK(differing_ranks(with_digests({"5", "5", "6", "6"})) == Numbers{0, 1, 2, 3});
  CHECK(differing_ranks(with_digests({"5", "5", "6", "7"})) == Numbers{0, 1, 2, 3});
}

TEST_CASE("a kernel is odd if it is right on another GPU of the same kind") {
  using Odd = std::map<int, std::string>;
  CHECK(ranks_with_odd_kernels({{"H100", "n1", {""}}, {"H100", "n1", {""}}}).empty());
  CHECK(ranks_with_odd_kernels({{"H100", "n1", {"a"}}, {"H100", "n2", {"a"}}}).empty());
  CHECK(ranks_with_odd_kernels({{"H100", "n1", {"a"}}, {"A100", "n2", {""}}}).empty());
  CHECK(ranks_with_odd_kernels(
            {{"H100", "n1", {"a", "b", "c"}}, {"A100", "n2", {""}}, {"H100", "n3", {"a"}}}) ==
        Odd{{0, "b"}});
  CHECK(ranks_with_odd_kernels(
            {{"A100", "n1", {"a"}}, {"A100", "n1", {"b"}}, {"A100", "n2", {""}}}) ==
        Odd{{0, "a"}, {1, "b"}});
}

}  // namespace bv::test
