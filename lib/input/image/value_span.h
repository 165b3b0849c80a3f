// Whether two data sets scale the values of their images in the same way.
//
// A model that was trained on values from -1 to 1 computes nonsense for values from 0 to 255, and
// no shape or type tells. Such images come from arrays with another scale and from pp strings that
// differ.
#pragma once

#include <ATen/core/TensorBody.h>

#include <optional>
#include <string>

namespace bv {

// The least and the greatest value of some images after preprocessing.
struct ValueSpan {
  double least = 0;
  double greatest = 0;

  std::string text() const;  // "-1 to 1"
};

// Returns the span of the values of `images`; nullopt if there are none, or if one is not finite.
std::optional<ValueSpan> value_span(const at::Tensor& images);

// Returns the span of both.
ValueSpan join(const ValueSpan& a, const ValueSpan& b);

// Returns whether an end of one span is further from that of the other than 0.3 of the longer
// span: true for -1 to 1 beside 0 to 1, but not for some dark images beside some bright ones.
bool far_apart(const ValueSpan& a, const ValueSpan& b);

}  // namespace bv
