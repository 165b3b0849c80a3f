// Helpers for tests that compare a layer, forward and backward, with its formula in float64.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>

#include <catch2/catch.hpp>
#include <vector>

namespace bv::test {

using Tensors = std::vector<at::Tensor>;

inline at::Tensor noise(at::IntArrayRef shape, at::ScalarType type, uint64_t seed) {
  return at::randn(shape, at::detail::createCPUGenerator(seed), at::kFloat).to(type);
}

// Returns a copy that gets a gradient.
inline at::Tensor leaf(const at::Tensor& x) { return x.detach().clone().requires_grad_(true); }

// Returns the result and the gradients of the inputs. `all`: the inputs, and last the gradient of
// the result.
template <class F>
Tensors results(const F& f, const Tensors& all, at::ScalarType type) {
  Tensors inputs;
  for (size_t i = 0; i + 1 < all.size(); ++i)
    inputs.push_back(all[i].detach().to(type).requires_grad_());
  const at::Tensor y = f(inputs);
  Tensors out = torch::autograd::grad({y}, inputs, {all.back().to(type)});
  out.insert(out.begin(), y.detach());
  return out;
}

// The maximum error of each tensor, relative to its maximum value.
inline std::vector<double> errors(const Tensors& found, const Tensors& exact) {
  std::vector<double> all;
  for (size_t i = 0; i < exact.size(); ++i) {
    REQUIRE(found[i].sizes() == exact[i].sizes());
    const at::Tensor far = (found[i].to(at::kDouble) - exact[i]).abs().max();
    all.push_back((far / exact[i].abs().max()).item<double>());
  }
  return all;
}

class Threads {
 public:
  explicit Threads(int count) { at::set_num_threads(count); }
  ~Threads() { at::set_num_threads(before_); }

 private:
  int before_ = at::get_num_threads();
};

}  // namespace bv::test
