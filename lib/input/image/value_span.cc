#include "lib/input/image/value_span.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/aminmax.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace bv {

std::string ValueSpan::text() const { return fmt::format("{:.4g} to {:.4g}", least, greatest); }

std::optional<ValueSpan> value_span(const at::Tensor& images) {
  if (!images.defined() || images.numel() == 0) return std::nullopt;
  const auto [least, greatest] = at::aminmax(images);
  const ValueSpan span{least.item<double>(), greatest.item<double>()};
  if (!std::isfinite(span.least) || !std::isfinite(span.greatest)) return std::nullopt;
  return span;
}

std::vector<ValueSpan> channel_spans(const at::Tensor& images) {
  if (!value_span(images) || images.dim() == 0) return {};
  const auto [least, greatest] = at::aminmax(images.reshape({-1, images.size(-1)}), /*dim=*/0);
  const at::Tensor low = least.to(at::kDouble), high = greatest.to(at::kDouble);
  std::vector<ValueSpan> spans;
  for (int64_t c = 0; c < images.size(-1); ++c)
    spans.push_back({low.const_data_ptr<double>()[c], high.const_data_ptr<double>()[c]});
  return spans;
}

ValueSpan join(const ValueSpan& a, const ValueSpan& b) {
  return {std::min(a.least, b.least), std::max(a.greatest, b.greatest)};
}

bool far_apart(const ValueSpan& a, const ValueSpan& b) {
  const double longer = std::max(a.greatest - a.least, b.greatest - b.least);
  return std::max(std::abs(a.least - b.least), std::abs(a.greatest - b.greatest)) > 0.3 * longer;
}

bool of_other_scale(const ValueSpan& a, const ValueSpan& b) {
  const double of_a = a.greatest - a.least, of_b = b.greatest - b.least;
  const double shorter = std::min(of_a, of_b);
  return shorter > 0 && std::max(of_a, of_b) > 10 * shorter;
}

std::string scale_problem(std::span<const ValueSpan> channels) {
  // Values from 0 to 1 that are scaled as if they were from 0 to 255 differ by less than 0.02,
  // whichever op scales them. Those of 16 bits are then from -1 to 513.
  constexpr double kLeastLength = 0.02, kGreatest = 300;
  if (channels.empty()) return "";
  ValueSpan all = channels[0];
  double longest = 0;
  for (const ValueSpan& channel : channels) {
    all = join(all, channel);
    longest = std::max(longest, channel.greatest - channel.least);
  }
  const bool large = std::max(-all.least, all.greatest) > kGreatest;
  if (!large && (longest == 0 || longest >= kLeastLength)) return "";
  return fmt::format(
      "makes images with values from {}, {}: scale the values only once, and give the range of the "
      "stored values, as in {}",
      all.text(), large ? "but models expect about -1 to 1" : "which hardly differ",
      large ? "value_range(-1, 1, 0, 65535) for 16 bits"
            : "value_range(-1, 1, 0, 1) for values from 0 to 1");
}

}  // namespace bv
