// Whether images have the same scale.
#include "lib/input/image/value_span.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <limits>

namespace bv {

TEST_CASE("the span of the values of images") {
  const auto span = value_span(at::tensor({-1.0F, 0.5F, 0.25F}));
  REQUIRE(span);
  CHECK(span->least == -1);
  CHECK(span->greatest == 0.5);
  CHECK(span->text() == "-1 to 0.5");
  CHECK(value_span(at::tensor({3, 200}, at::kByte))->greatest == 200);
  CHECK_FALSE(value_span(at::empty({0, 2, 2, 3})));
  CHECK_FALSE(value_span(at::Tensor()));
  CHECK_FALSE(value_span(at::tensor({1.0F, std::numeric_limits<float>::quiet_NaN()})));
  CHECK(join({-1, 0}, {-0.5, 1}).text() == "-1 to 1");
}

TEST_CASE("spans that are far apart are those of other scales, not of other pictures") {
  CHECK(far_apart({-1, 1}, {0, 1}));
  CHECK(far_apart({-1, 1}, {0, 255}));
  CHECK(far_apart({-1, 1}, {-1, -0.99}));
  CHECK(far_apart({-2.1, 2.6}, {-1, 1}));
  CHECK_FALSE(far_apart({-1, 1}, {-0.95, 0.7}));  // not the brightest white
  CHECK_FALSE(far_apart({-2.1, 2.6}, {-2.0, 2.2}));
  CHECK_FALSE(far_apart({0, 0}, {0, 0}));
  CHECK(of_other_scale({-1, 1}, {-1, -0.992}));
  CHECK(of_other_scale({0, 1}, {0, 255}));
  CHECK_FALSE(of_other_scale({-1, 1}, {-1, -0.7}));  // dark pictures
  CHECK_FALSE(of_other_scale({-1, -1}, {-1, 1}));    // black ones
}

}  // namespace bv
