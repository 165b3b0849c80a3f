#include "lib/model/kernels/linear.h"

#include <ATen/ops/linear.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lib/model/kernels/float_products.h"

namespace bv {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// A product of matrices x (n, in) and weight (out, in), and its gradients.
class LinearByOneDnn : public torch::autograd::Function<LinearByOneDnn> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias) {
    context->save_for_backward({x, weight});
    return onednn_product(x, weight, bias);
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &grad = grads[0];  // grad (n, out)
    variable_list result(3);
    if (context->needs_input_grad(0)) result[0] = onednn_product(grad, weight.t());
    if (context->needs_input_grad(1)) result[1] = onednn_transposed_product(grad, x);
    if (context->needs_input_grad(2)) result[2] = grad.sum(0);
    return result;
  }
};

// The same with x in bfloat16.
class LinearInFloat32 : public torch::autograd::Function<LinearInFloat32> {
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
    if (context->needs_input_grad(1)) result[1] = float_transposed_product(grad, x.to(at::kFloat));
    if (context->needs_input_grad(2)) result[2] = grad.sum(0);
    return result;
  }
};

// Calls F for the rows of x (..., in).
template <class F>
at::Tensor over_rows(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = weight.size(0);
  return F::apply(x.reshape({-1, x.size(-1)}), weight, bias).reshape(shape);
}

}  // namespace

at::Tensor linear_by_onednn(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return over_rows<LinearByOneDnn>(x, weight, bias);
}

at::Tensor linear_in_float32(const at::Tensor& x, const at::Tensor& weight,
                             const at::Tensor& bias) {
  return over_rows<LinearInFloat32>(x, weight, bias);
}

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const bool onednn =
      x.is_cpu() && x.scalar_type() == at::kFloat && prefers_onednn(x.numel() * weight.size(0));
  // at::linear() adds the bias within the product only if x is contiguous. If not, it copies x too.
  return onednn ? linear_by_onednn(x, weight, bias) : at::linear(x.contiguous(), weight, bias);
}

}  // namespace bv
