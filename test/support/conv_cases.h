// Convolutions with operands of noise, and their exact results, for tests of the kernels.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstdint>
#include <vector>

namespace bv::test {

// A convolution of n images of h x w pixels with a kernel of size x size taps.
struct ConvCase {
  int64_t n, h, w, in, out, size;
};

// The operands of a convolution with stride 1 and SAME padding. x (n, in, h, w) is channels_last.
// grad (n, out, h, w), the gradient of the result, is not. Both have the given type. kernel (k, k,
// in, out) and bias (out) are float32.
struct ConvOperands {
  at::Tensor x, kernel, bias, grad;

  ConvOperands(const ConvCase& s, at::ScalarType type)
      : x(noise({s.n, s.in, s.h, s.w}, 1).to(type).contiguous(at::MemoryFormat::ChannelsLast)),
        kernel(noise({s.out, s.size, s.size, s.in}, 2).permute({1, 2, 3, 0})),
        bias(noise({s.out}, 3)),
        grad(noise({s.n, s.out, s.h, s.w}, 4).to(type)) {}

  // The same in the type `wide`, with the kernel first rounded to `type`, as in a network that
  // computes in `type`.
  ConvOperands widened(at::ScalarType type, at::ScalarType wide = at::kDouble) const {
    ConvOperands all = *this;
    all.kernel = kernel.to(type);
    for (at::Tensor* each : {&all.x, &all.kernel, &all.bias, &all.grad}) *each = each->to(wide);
    return all;
  }

 private:
  static at::Tensor noise(at::IntArrayRef shape, uint64_t seed) {
    return at::randn(shape, at::detail::createCPUGenerator(seed), at::kFloat);
  }
};

// Returns the result of f(x, kernel, bias) and the gradients of x, kernel and bias.
template <class F>
std::vector<at::Tensor> conv_results(const F& f, const ConvOperands& operands) {
  std::vector<at::Tensor> inputs;
  for (const at::Tensor& each : {operands.x, operands.kernel, operands.bias})
    inputs.push_back(each.detach().requires_grad_());
  const at::Tensor y = f(inputs[0], inputs[1], inputs[2]);
  std::vector<at::Tensor> all =
      torch::autograd::grad({y}, inputs, {operands.grad.to(y.scalar_type())});
  all.insert(all.begin(), y.detach());
  return all;
}

// LibTorch's convolution.
inline at::Tensor libtorch_conv(const at::Tensor& x, const at::Tensor& kernel,
                                const at::Tensor& bias) {
  return at::conv2d(x, kernel.permute({3, 2, 0, 1}), bias, 1, (kernel.size(0) - 1) / 2);
}

// Returns the root mean square of the error, divided by that of the exact values.
inline double relative_error(const at::Tensor& found, const at::Tensor& exact) {
  const at::Tensor distance = found.to(at::kDouble) - exact;
  return (distance.square().mean().sqrt() / exact.square().mean().sqrt()).item<double>();
}

}  // namespace bv::test
