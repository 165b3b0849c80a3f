// What the kernels for convolutions share: blocks of channels, and autograd.
#pragma once

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "lib/device/float_lanes.h"

namespace bv {

// The largest divisor of `channels` that is a multiple of 16 and at most `limit`.
inline int64_t block_width(int64_t channels, int64_t limit) {
  int64_t width = std::min(channels, limit) / simd::kLanes * simd::kLanes;
  while (channels % width != 0) width -= simd::kLanes;
  return width;
}

inline int64_t divided_up(int64_t x, int64_t y) { return (x + y - 1) / y; }

// A convolution with stride 1 and SAME padding as an autograd function. x is (n, in, h, w); the
// result and its gradient are (n, out, h, w). These three are channels_last and have the same type.
// The kernel is (k, k, in, out) and may have another type. Algorithm has the static functions
//   at::Tensor convolve(x, kernel, bias)  // bias (out), float32, or undefined
//   at::Tensor input_gradient(x, kernel, grad)
//   at::Tensor kernel_gradient(x, kernel, grad)  // float32
template <class Algorithm>
class ConvFunction : public torch::autograd::Function<ConvFunction<Algorithm>> {
 public:
  using Context = torch::autograd::AutogradContext;
  using Variables = torch::autograd::variable_list;

  static at::Tensor forward(Context* context, const at::Tensor& x, const at::Tensor& kernel,
                            const std::optional<at::Tensor>& bias) {
    context->save_for_backward({x, kernel});
    context->saved_data["bias"] = bias.has_value();
    return Algorithm::convolve(x, kernel, bias ? bias->to(at::kFloat).contiguous() : at::Tensor());
  }

  static Variables backward(Context* context, const Variables& grads) {
    const Variables saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &kernel = saved[1];
    const at::Tensor grad = grads[0].contiguous(at::MemoryFormat::ChannelsLast);
    at::Tensor dx, dkernel, dbias;
    if (context->needs_input_grad(0)) dx = Algorithm::input_gradient(x, kernel, grad);
    if (context->needs_input_grad(1))
      dkernel = Algorithm::kernel_gradient(x, kernel, grad).to(kernel.scalar_type());
    if (context->saved_data["bias"].toBool() && context->needs_input_grad(2))
      dbias = grad.sum({0, 2, 3}, /*keepdim=*/false, at::kFloat);
    return {dx, dkernel, dbias};
  }
};

// Returns an uninitialized tensor for the result, with `channels` channels, of a convolution of x.
inline at::Tensor empty_result(const at::Tensor& x, int64_t channels) {
  return at::empty({x.size(0), channels, x.size(2), x.size(3)},
                   x.options().memory_format(at::MemoryFormat::ChannelsLast));
}

}  // namespace bv
