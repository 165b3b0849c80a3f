// Comparing with arrays made by the reference's code.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "test/shared.h"

namespace bv {

inline std::string golden_file(const std::string& name) { return shared_file("golden/" + name); }

// |a - b| <= atol + rtol * |b| everywhere, shapes equal.
inline bool close(const at::Tensor& a, const at::Tensor& b, double rtol, double atol) {
  return a.sizes() == b.sizes() && at::allclose(a.to(at::kDouble), b.to(at::kDouble), rtol, atol);
}

// The largest |a - b|; shapes must be equal.
inline double worst(const at::Tensor& a, const at::Tensor& b) {
  REQUIRE(a.sizes() == b.sizes());
  return (a.detach().to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

}  // namespace bv
