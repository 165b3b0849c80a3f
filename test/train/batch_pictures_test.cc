// The pictures of a batch.
#include "lib/train/trainer/batch_pictures.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>

namespace bv::test {

TEST_CASE("the least and the greatest value of the shown images are black and white") {
  const at::Tensor images = at::tensor({-1.0, 1.0, 0.0, 9.0}).reshape({4, 1, 1, 1});
  const std::vector<Picture> shown = batch_pictures(images, 3);
  REQUIRE(shown.size() == 3);  // the fourth does not count
  CHECK(shown[0].pixels == std::vector<uint8_t>{0});
  CHECK(shown[1].pixels == std::vector<uint8_t>{255});
  CHECK(shown[2].pixels == std::vector<uint8_t>{128});
  CHECK(batch_pictures(at::full({1, 1, 1, 1}, 5, at::kByte), 3)[0].pixels ==
        std::vector<uint8_t>{0});
}

TEST_CASE("odd images make no picture, or one of their first channel") {
  CHECK(batch_pictures(at::zeros({2, 8}), 3).empty());
  CHECK(batch_pictures(at::zeros({0, 8, 8, 3}), 3).empty());
  CHECK(batch_pictures(at::full({1, 2, 2, 3}, std::nan("")), 3).empty());
  const at::Tensor two = at::tensor({1.0, 7.0, 3.0, 8.0}).reshape({1, 1, 2, 2});
  CHECK(batch_pictures(two, 1)[0].pixels == std::vector<uint8_t>{0, 255});
  at::Tensor bad = at::tensor({1.0, std::nan(""), INFINITY, 2.0}).reshape({1, 2, 2, 1});
  CHECK(batch_pictures(bad, 1)[0].pixels == std::vector<uint8_t>{0, 0, 255, 255});
  CHECK(batch_pictures(at::zeros({1, 600, 300, 3}), 1)[0].height == 200);
}

}  // namespace bv::test
