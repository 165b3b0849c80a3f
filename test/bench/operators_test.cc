// A step's FLOPs and bytes: extrapolation from two batches to a third, and the minimum time.
#include "lib/bench/operators.h"

#include <catch2/catch.hpp>

#include "test/support/error.h"

namespace bv::test {

TEST_CASE("operators: a larger batch has the same calls, with more for each example") {
  // A product whose weights take 100 bytes and each example 10; an update that takes 50 in all.
  const std::vector<OperatorCall> two = {{"aten::mm", 8, 120}, {"optimizer", 0, 50}};
  const std::vector<OperatorCall> four = {{"aten::mm", 16, 140}, {"optimizer", 0, 50}};
  const std::vector<OperatorCall> all = scale_to_batch(two, 2, four, 4, 256);
  REQUIRE(all.size() == 2);
  CHECK(all[0].name == "aten::mm");
  CHECK(all[0].flops == 4 * 256);
  CHECK(all[0].bytes == 100 + 10 * 256);
  CHECK(all[1].bytes == 50);
  CHECK(
      error_of([&] {
        scale_to_batch(two, 2, {{"aten::mm", 16, 140}}, 4, 256);
      }) ==
      "bvtrain bench operators: error: steps of 2 and of 4 examples differ: call 2 is optimizer in "
      "one and the end in the other");
}

TEST_CASE("operators: a call takes the longer of its two times, and the longest come first") {
  const std::vector<OperatorCall> calls = {
      {"aten::add", 0, 30}, {"aten::mm", 400, 10}, {"aten::mm", 100, 50}};
  const std::vector<OperatorSum> sums = roofline(calls, /*flops_per_second=*/100,
                                                 /*bytes_per_second=*/10);
  REQUIRE(sums.size() == 2);
  CHECK(sums[0].name == "aten::mm");
  CHECK(sums[0].calls == 2);
  CHECK(sums[0].flops == 500);
  CHECK(sums[0].bytes == 60);
  CHECK(sums[0].seconds == Approx(4 + 5));
  CHECK(sums[1].seconds == Approx(3));
}

}  // namespace bv::test
