// Comparing tensors.
#pragma once

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <map>
#include <string>

namespace bv::test {

// Returns whether the shapes are equal and |a - b| <= atol + rtol * |b| everywhere.
inline bool close(const at::Tensor& a, const at::Tensor& b, double rtol, double atol) {
  return a.sizes() == b.sizes() && at::allclose(a.to(at::kDouble), b.to(at::kDouble), rtol, atol);
}

// Returns the largest |a - b|. The shapes must be equal.
inline double worst(const at::Tensor& a, const at::Tensor& b) {
  REQUIRE(a.sizes() == b.sizes());
  return (a.detach().to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

// Returns whether dtype, shape and every bit are equal: NaNs compare equal, 0 and -0 do not.
inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) return false;
  const at::Tensor x = a.contiguous(), y = b.contiguous();
  // An empty tensor may have no memory, but memcmp() requires a pointer.
  return x.nbytes() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

// Returns whether the names are equal and same_bits() holds for the tensors of each name.
inline bool same_bits(const std::map<std::string, at::Tensor>& a,
                      const std::map<std::string, at::Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [name, value] : a) {
    const auto found = b.find(name);
    if (found == b.end() || !same_bits(value, found->second)) return false;
  }
  return true;
}

}  // namespace bv::test
