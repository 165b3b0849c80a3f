#include "lib/model/kernels/linear.h"

#include <ATen/ops/linear.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lib/device/plain_kernels.h"
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

}  // namespace

at::Tensor linear_in_float32(const at::Tensor& x, const at::Tensor& weight,
                             const at::Tensor& bias) {
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = weight.size(0);
  return FloatLinear::apply(x.reshape({-1, x.size(-1)}), weight, bias).reshape(shape);
}

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  if (x.is_cpu() && x.scalar_type() == at::kFloat && !plain_kernels())
    return linear_in_float32(x, weight, bias);
  // at::linear() fuses the bias into the product only if x is contiguous. Otherwise it also copies
  // x.
  return at::linear(x.contiguous(), weight, bias);
}

}  // namespace bv
