#include "lib/model/kernels/device/device_linear.h"

#include <ATen/ops/_unsafe_view.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "lib/device/plain_kernels.h"
#include "lib/model/kernels/device/aligned.h"
#include "lib/model/kernels/device/dense_products.h"
#include "lib/model/kernels/device/device_check.h"

namespace bv {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kMultiple = 8;        // of features: rows are aligned to 16 bytes
constexpr int64_t kLeastFeatures = 16;  // in and out
// Two products of an MLP can sum the gradient of its first bias. True: the one that computes the
// GELU gradient; the sum is then bfloat16. False: the one that computes the first weight gradient.
constexpr bool kSumWithGelu = true;

// Returns the values as a matrix (n, columns) for lib/model/kernels/device/dense_products.h.
at::Tensor matrix(const at::Tensor& values, int64_t columns) {
  return aligned(values.to(at::kBFloat16).contiguous().view({-1, columns}));
}

// Returns a float32 weight (out, in) of any strides, rounded to bfloat16 and contiguous.
at::Tensor rounded(const at::Tensor& weight) {
  return weight.to(at::kBFloat16, /*non_blocking=*/false, /*copy=*/false,
                   at::MemoryFormat::Contiguous);
}

// Returns a matrix (n, columns) in the shape of `like`, but with `columns` as the last size.
// Nothing else may use the matrix: autograd does not treat the result as a view of it, so it may be
// changed in place.
at::Tensor reshaped(const at::Tensor& values, const at::Tensor& like, int64_t columns) {
  std::vector<int64_t> shape = like.sizes().vec();
  shape.back() = columns;
  return at::_unsafe_view(values, shape);
}

// Computes the required gradients of a weight (out, in) and of its bias.
void set_gradients(const at::Tensor& grad, const at::Tensor& x, bool wants_weight, bool wants_bias,
                   at::Tensor& weight, at::Tensor& bias) {
  if (wants_weight)
    weight = weight_gradient(grad, x, wants_bias ? &bias : nullptr);
  else if (wants_bias)
    bias = sum_of_rows(grad);
}

// x (..., in) bfloat16; weight (out, in) and bias (out) float32.
class DeviceLinear : public torch::autograd::Function<DeviceLinear> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias) {
    const at::Tensor input = matrix(x, weight.size(1)), w = rounded(weight);
    context->save_for_backward({input, w});
    return reshaped(linear_product(input, w, bias.to(at::kBFloat16)), x, weight.size(0));
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1];
    const at::Tensor grad = matrix(grads[0], weight.size(0));
    variable_list result(3);
    if (context->needs_input_grad(0))
      result[0] = reshaped(input_gradient(grad, weight), grads[0], x.size(1));
    set_gradients(grad, x, context->needs_input_grad(1), context->needs_input_grad(2), result[1],
                  result[2]);
    return result;
  }
};

// x (..., in) bfloat16; weights (hidden, in) and (out, hidden), biases (hidden) and (out) float32.
class DeviceMlp : public torch::autograd::Function<DeviceMlp> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight1, const at::Tensor& bias1,
                            const at::Tensor& weight2, const at::Tensor& bias2) {
    const at::Tensor input = matrix(x, weight1.size(1));
    const at::Tensor w1 = rounded(weight1), w2 = rounded(weight2);
    at::Tensor before;
    const at::Tensor hidden = gelu_product(input, w1, bias1.to(at::kBFloat16), &before);
    context->save_for_backward({input, before, hidden, w1, w2});
    return reshaped(linear_product(hidden, w2, bias2.to(at::kBFloat16)), x, weight2.size(0));
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &before = saved[1], &hidden = saved[2], &weight1 = saved[3],
                     &weight2 = saved[4];
    const auto wants = [&](size_t i) { return context->needs_input_grad(i); };
    const at::Tensor grad = matrix(grads[0], weight2.size(0));
    variable_list result(5);
    set_gradients(grad, hidden, wants(3), wants(4), result[3], result[4]);
    if (!wants(0) && !wants(1) && !wants(2)) return result;
    const bool sums = kSumWithGelu && wants(2);
    at::Tensor sum;
    const at::Tensor inner = gelu_input_gradient(grad, weight2, before, sums ? &sum : nullptr);
    if (sums) result[2] = sum.to(at::kFloat);
    set_gradients(inner, x, wants(1), wants(2) && !sums, result[1], result[2]);
    if (wants(0)) result[0] = reshaped(input_gradient(inner, weight1), grads[0], x.size(1));
    return result;
  }
};

bool has_gradient(std::initializer_list<const at::Tensor*> tensors) {
  if (!c10::GradMode::is_enabled()) return false;
  for (const at::Tensor* tensor : tensors)
    if (tensor->requires_grad()) return true;
  return false;
}

KernelCheck dense_check(c10::Device device) {
  constexpr int64_t kRows = 64, kIn = 128, kHidden = 256;
  // Weights whose products are about 1.
  const auto weight = [&](int64_t out, int64_t in, int64_t seed) {
    return (check_numbers({out, in}, seed, device) / std::sqrt(static_cast<double>(in))).t();
  };
  return {.inputs = {check_numbers({kRows, kIn}, 1, device, at::kBFloat16), weight(kHidden, kIn, 2),
                     check_numbers({kHidden}, 3, device), weight(kIn, kHidden, 4),
                     check_numbers({kIn}, 5, device)},
          .fused = [](const variable_list& all) -> variable_list {
            return {device_mlp(all[0], all[1], all[2], all[3], all[4], /*train=*/false),
                    device_linear(all[0], all[1], all[2])};
          },
          .plain = [](const variable_list& all) -> variable_list {
            const at::Tensor inner = at::linear(all[0], all[1].t(), all[2]);
            return {at::linear(at::gelu(inner, "tanh"), all[3].t(), all[4]), inner};
          }};
}

}  // namespace

bool fits_device_linear(const at::Tensor& x, const at::Tensor& kernel) {
  const auto suits = [](int64_t features) {
    return features >= kLeastFeatures && features % kMultiple == 0;
  };
  return x.is_cuda() && kernel.is_cuda() && kernel.scalar_type() == at::kFloat && x.numel() > 0 &&
         !plain_kernels() && suits(kernel.size(0)) && suits(kernel.size(1)) &&
         fused_kernel_is_right("dense layers", x.device(), dense_check);
}

at::Tensor device_linear(const at::Tensor& x, const at::Tensor& kernel, const at::Tensor& bias) {
  const at::Tensor weight = kernel.t();
  if (has_gradient({&x, &weight, &bias})) return DeviceLinear::apply(x, weight, bias);
  const at::Tensor y =
      linear_product(matrix(x, kernel.size(0)), rounded(weight), bias.to(at::kBFloat16));
  return reshaped(y, x, kernel.size(1));
}

at::Tensor device_mlp(const at::Tensor& x, const at::Tensor& kernel1, const at::Tensor& bias1,
                      const at::Tensor& kernel2, const at::Tensor& bias2, bool train) {
  const at::Tensor weight1 = kernel1.t(), weight2 = kernel2.t();
  if (has_gradient({&x, &weight1, &bias1, &weight2, &bias2}))
    return DeviceMlp::apply(x, weight1, bias1, weight2, bias2);
  at::Tensor before;
  const at::Tensor hidden = gelu_product(matrix(x, kernel1.size(0)), rounded(weight1),
                                         bias1.to(at::kBFloat16), train ? &before : nullptr);
  return reshaped(linear_product(hidden, rounded(weight2), bias2.to(at::kBFloat16)), x,
                  kernel2.size(1));
}

}  // namespace bv
