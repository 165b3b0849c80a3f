// Whether two data sets scale the values of their images in the same way, and in a usual one.
//
// A model that was trained on values from -1 to 1 computes nonsense for values from 0 to 255, and
// neither shapes nor types show the mistake. Its causes are arrays with another scale, and pp
// strings that scale differently.
#pragma once

#include <ATen/core/TensorBody.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace bv {

// The smallest and the largest pixel value of some images after preprocessing.
struct ValueSpan {
  double least = 0;
  double greatest = 0;

  std::string text() const;  // "-1 to 1"
};

// Returns the span of the values of `images`; nullopt if there are none, or if one is not finite.
std::optional<ValueSpan> value_span(const at::Tensor& images);

// Returns the spans of the channels of images of shape (..., channels); empty if value_span() would
// return nullopt.
std::vector<ValueSpan> channel_spans(const at::Tensor& images);

// Returns the smallest span that contains both.
ValueSpan join(const ValueSpan& a, const ValueSpan& b);

// Returns whether the spans are probably of different scales: their ends differ by more than 0.3 of
// the longer span. True for -1 to 1 and 0 to 1, but not for a few dark and a few bright images.
bool far_apart(const ValueSpan& a, const ValueSpan& b);

// Returns whether the spans have different scales even if one has much darker images: one is ten
// times as long as the other. True for -1 to 1 and -1 to -0.992. False if all values are the same.
bool of_other_scale(const ValueSpan& a, const ValueSpan& b);

// Says what is wrong with images for a model if their channels have these spans: values that hardly
// differ, or that are far from -1 to 1. "" for all usual scales, 0 to 255 among them, for dark
// pictures, and if each channel has only one value.
std::string scale_problem(std::span<const ValueSpan> channels);

}  // namespace bv
