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

TEST_CASE("the spans of the channels of images") {
  const auto spans = channel_spans(at::tensor({1.0F, -5.0F, 3.0F, -5.0F}).view({2, 1, 2}));
  REQUIRE(spans.size() == 2);
  CHECK(spans[0].text() == "1 to 3");
  CHECK(spans[1].text() == "-5 to -5");
  CHECK(channel_spans(at::empty({0, 2, 2, 3})).empty());
}

TEST_CASE("a scale with which a model can hardly learn is told from usual ones") {
  using Spans = std::vector<ValueSpan>;
  CHECK(scale_problem(Spans{{-1, -0.9922}}) ==
        "makes images with values from -1 to -0.9922, which hardly differ: scale the values only "
        "once, and give the range of the stored values, as in value_range(-1, 1, 0, 1) for values "
        "from 0 to 1");
  CHECK(scale_problem(Spans{{-1, 513}}) ==
        "makes images with values from -1 to 513, but models expect about -1 to 1: scale the "
        "values only once, and give the range of the stored values, as in value_range(-1, 1, 0, "
        "65535) for 16 bits");
  // vgg_value_range of values from 0 to 1
  CHECK_FALSE(scale_problem(Spans{{-2.118, -2.101}, {-2.036, -2.018}, {-1.804, -1.787}}).empty());
  for (const ValueSpan& usual :
       Spans{{-1, 1}, {0, 1}, {-2.1, 2.6}, {0, 255}, {-123, 151}, {-1, -0.95}})
    CHECK(scale_problem(Spans{usual}).empty());
  CHECK(scale_problem(Spans{{0, 0}, {0, 0.3}, {0, 0}}).empty());
  CHECK(scale_problem(Spans{{-1, -1}}).empty());
  CHECK(scale_problem(Spans{}).empty());
}

}  // namespace bv
