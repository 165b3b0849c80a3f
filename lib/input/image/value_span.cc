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

ValueSpan join(const ValueSpan& a, const ValueSpan& b) {
  return {std::min(a.least, b.least), std::max(a.greatest, b.greatest)};
}

bool far_apart(const ValueSpan& a, const ValueSpan& b) {
  const double longer = std::max(a.greatest - a.least, b.greatest - b.least);
  return std::max(std::abs(a.least - b.least), std::abs(a.greatest - b.greatest)) > 0.3 * longer;
}

bool of_other_scale(const ValueSpan& a, const ValueSpan& b) {
  const auto [shorter, longer] = std::minmax(a.greatest - a.least, b.greatest - b.least);
  return shorter > 0 && longer > 10 * shorter;
}

}  // namespace bv
