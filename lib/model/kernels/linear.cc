#include "lib/model/kernels/linear.h"

#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lib/device/cpu_bf16.h"
#include "lib/device/plain_kernels.h"
#include "lib/model/gradient_memory.h"
#include "lib/model/kernels/bias.h"
#include "lib/model/kernels/float_products.h"

namespace bv {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The products are float32. x (n, in) may have another type.
class FloatLinear : public torch::autograd::Function<FloatLinear> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias) {
    context->save_for_backward({x, weight});
    return float_product(x.to(at::kFloat), weight, bias).to(x.scalar_type());
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], grad = grads[0].to(at::kFloat);
    variable_list result(3);
    if (context->needs_input_grad(0))
      result[0] = float_product(grad, weight.t()).to(x.scalar_type());
    if (context->needs_input_grad(1))
      result[1] = float_weight_gradient(grad, x.to(at::kFloat), weight);
    if (context->needs_input_grad(2)) result[2] = grad.sum(0);
    return result;
  }
};

// The products are bfloat16, as is x (n, in). at::linear() would first copy the bias to each row of
// the result, and sum its gradient in bfloat16.
class Bf16Linear : public torch::autograd::Function<Bf16Linear> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias) {
    const at::Tensor rounded = weight.to(at::kBFloat16);
    context->save_for_backward({x, weight, rounded});
    return onednn_product(x, rounded, bias.to(at::kBFloat16));
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &rounded = saved[2], &grad = grads[0];
    variable_list result(3);
    if (context->needs_input_grad(0)) result[0] = at::mm(grad, rounded);
    if (context->needs_input_grad(1)) {
      const at::Tensor product = at::mm(grad.t(), x);
      const bool narrow = weight.scalar_type() == at::kBFloat16;
      result[1] = narrow ? product : new_gradient(weight).copy_(product);
    }
    if (context->needs_input_grad(2)) result[2] = sum_columns(grad);
    return result;
  }
};

// Returns f(x as a matrix, ...), with the leading dimensions of x.
template <class F>
at::Tensor over_rows(const at::Tensor& x, const at::Tensor& weight, const F& apply) {
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = weight.size(0);
  return apply(x.reshape({-1, x.size(-1)})).reshape(shape);
}

}  // namespace

at::Tensor linear_in_float32(const at::Tensor& x, const at::Tensor& weight,
                             const at::Tensor& bias) {
  return over_rows(x, weight,
                   [&](const at::Tensor& rows) { return FloatLinear::apply(rows, weight, bias); });
}

bool fits_linear_in_bf16(const at::Tensor& x) {
  return x.is_cpu() && x.numel() > 0 && !plain_kernels() && cpu_bf16() == CpuBf16::fast &&
         has_onednn();
}

at::Tensor linear_in_bf16(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return over_rows(x.to(at::kBFloat16), weight,
                   [&](const at::Tensor& rows) { return Bf16Linear::apply(rows, weight, bias); });
}

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  if (x.is_cpu() && x.scalar_type() == at::kFloat && !plain_kernels())
    return linear_in_float32(x, weight, bias);
  // at::linear() fuses the bias into the product only if x is contiguous. Otherwise it also copies
  // x.
  return at::linear(x.contiguous(), weight, bias);
}

}  // namespace bv
