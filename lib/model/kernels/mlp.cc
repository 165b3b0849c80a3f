#include "lib/model/kernels/mlp.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/addbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sum.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lib/device/cpu_bf16.h"
#include "lib/device/plain_kernels.h"
#include "lib/model/kernels/float_products.h"
#include "lib/model/kernels/gelu_rows.h"

namespace bv {
namespace {

using c10::BFloat16;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The products over the last dimension of x (rows, in).
struct OverFeatures {
  static constexpr BiasOf kBiasOf = BiasOf::columns;
  static at::Tensor product(const at::Tensor& x, const at::Tensor& weight) {
    return float_product(x, weight);
  }
  static at::Tensor product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
    return float_product(x, weight, bias);
  }
  static at::Tensor weight_gradient(const at::Tensor& grad, const at::Tensor& x) {
    return float_transposed_product(grad, x);
  }
  static at::Tensor sum_of(const at::Tensor& grad) { return grad.sum(0); }
};

// The products over dimension 1 of x (n, in, features).
struct OverTokens {
  static constexpr BiasOf kBiasOf = BiasOf::rows;
  static at::Tensor product(const at::Tensor& x, const at::Tensor& weight) {
    return at::bmm(weight.unsqueeze(0).expand({x.size(0), -1, -1}), x);
  }
  static at::Tensor product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
    return product(x, weight).add_(bias.unsqueeze(1));
  }
  static at::Tensor weight_gradient(const at::Tensor& grad, const at::Tensor& x) {
    const at::Tensor sum = at::empty({grad.size(1), x.size(1)}, grad.options());
    return at::addbmm(sum, grad, x.transpose(1, 2), /*beta=*/0);
  }
  static at::Tensor sum_of(const at::Tensor& grad) { return grad.sum(at::IntArrayRef{0, 2}); }
};

template <class Products>
class MlpFunction : public torch::autograd::Function<MlpFunction<Products>> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& in_weight, const at::Tensor& in_bias,
                            const at::Tensor& out_weight, const at::Tensor& out_bias, bool keeps) {
    constexpr BiasOf kBiasOf = Products::kBiasOf;
    const at::ScalarType type = x.scalar_type();
    const at::Tensor h = Products::product(x.to(at::kFloat), in_weight);
    at::Tensor y = h, kept = h;  // y takes the place of h unless h is kept
    if (keeps && type == at::kFloat) y = at::empty_like(h);
    BFloat16* copy = nullptr;
    if (keeps && type == at::kBFloat16) {
      kept = at::empty(h.sizes(), h.options().dtype(type));
      copy = kept.data_ptr<BFloat16>();
    }
    gelu_rows<kBiasOf>(h, in_bias, y, copy);
    if (keeps) context->save_for_backward({x, kept, in_weight, in_bias, out_weight});
    return Products::product(y, out_weight, out_bias).to(type);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    constexpr BiasOf kBiasOf = Products::kBiasOf;
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &h = saved[1], &in_weight = saved[2], &in_bias = saved[3],
                     &out_weight = saved[4];
    const at::Tensor grad = grads[0].to(at::kFloat).contiguous();
    const at::Tensor dh = Products::product(grad, out_weight.t()), y = at::empty_like(dh);
    const int64_t biases = in_bias.numel(), parts = rows_of_sums<kBiasOf>(h);
    const int64_t columns = kBiasOf == BiasOf::rows ? 1 : biases;
    const at::Tensor sums = at::empty({parts * columns / biases, biases}, dh.options());
    if (h.scalar_type() == at::kFloat)
      gelu_rows_backward<kBiasOf, float>(h, in_bias, dh, y, sums);
    else
      gelu_rows_backward<kBiasOf, BFloat16>(h, in_bias, dh, y, sums);
    variable_list result(6);
    if (context->needs_input_grad(0))
      result[0] = Products::product(dh, in_weight.t()).to(x.scalar_type());
    if (context->needs_input_grad(1)) result[1] = Products::weight_gradient(dh, x.to(at::kFloat));
    if (context->needs_input_grad(2))
      result[2] = sums.sum(0, /*keepdim=*/false, at::kDouble).to(at::kFloat);
    if (context->needs_input_grad(3)) result[3] = Products::weight_gradient(grad, y);
    if (context->needs_input_grad(4)) result[4] = Products::sum_of(grad);
    return result;
  }
};

template <class Products>
at::Tensor apply(const at::Tensor& x, const MlpWeights& w) {
  return MlpFunction<Products>::apply(x, w.in_weight, w.in_bias.contiguous(), w.out_weight,
                                      w.out_bias, at::GradMode::is_enabled());
}

bool computes(const at::Tensor& x, const MlpWeights& weights) {
  const bool type = x.scalar_type() == at::kFloat ||
                    (x.scalar_type() == at::kBFloat16 && multiplies_bf16_in_float32());
  return type && x.is_cpu() && !plain_kernels() && x.numel() > 0 &&
         weights.in_weight.scalar_type() == at::kFloat;
}

}  // namespace

bool mlp_fits(const at::Tensor& x, const MlpWeights& weights) {
  return computes(x, weights) && x.size(-1) == weights.in_weight.size(1);
}

at::Tensor mlp(const at::Tensor& x, const MlpWeights& weights) {
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = weights.out_weight.size(0);
  return apply<OverFeatures>(x.reshape({-1, x.size(-1)}), weights).reshape(shape);
}

bool token_mlp_fits(const at::Tensor& x, const MlpWeights& weights) {
  // LibTorch multiplies with MKL here.
  return computes(x, weights) && x.dim() == 3 && x.size(1) == weights.in_weight.size(1) &&
         !prefers_onednn(x.numel() * weights.in_weight.size(0));
}

at::Tensor token_mlp(const at::Tensor& x, const MlpWeights& weights) {
  return apply<OverTokens>(x.contiguous(), weights);
}

}  // namespace bv
