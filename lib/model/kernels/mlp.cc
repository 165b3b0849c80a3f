#include "lib/model/kernels/mlp.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sum.h>
#include <torch/csrc/autograd/custom_function.h>

#include <type_traits>

#include "lib/device/cpu_bf16.h"
#include "lib/device/plain_kernels.h"
#include "lib/model/gradient_memory.h"
#include "lib/model/kernels/bias.h"
#include "lib/model/kernels/float_products.h"
#include "lib/model/kernels/gelu_rows.h"

namespace bv {
namespace {

using c10::BFloat16;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

template <class T>
constexpr at::ScalarType kTypeOf = c10::CppTypeToScalarType<T>::value;

// The products over the last dimension of x (rows, in), float32.
struct OverFeatures {
  static constexpr BiasOf kBiasOf = BiasOf::columns;
  static at::Tensor product(const at::Tensor& x, const at::Tensor& weight) {
    return float_product(x, weight);
  }
  static at::Tensor product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
    return float_product(x, weight, bias);
  }
  static at::Tensor weight_gradient(const at::Tensor& grad, const at::Tensor& x,
                                    const at::Tensor& weight) {
    return float_weight_gradient(grad, x, weight);
  }
  static at::Tensor sum_of(const at::Tensor& grad) { return grad.sum(0); }
};

// The products over dimension 1 of x (n, in, features), float32 or bfloat16.
struct OverTokens {
  static constexpr BiasOf kBiasOf = BiasOf::rows;
  static at::Tensor product(const at::Tensor& x, const at::Tensor& weight) {
    return at::bmm(weight.to(x.scalar_type()).unsqueeze(0).expand({x.size(0), -1, -1}), x);
  }
  static at::Tensor product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
    const at::Tensor y = product(x, weight);
    add_bias_of_rows(y, bias);
    return y;
  }
  // Float32: a bfloat16 sum over n would round after each addition.
  static at::Tensor weight_gradient(const at::Tensor& grad, const at::Tensor& x,
                                    const at::Tensor& weight) {
    if (x.scalar_type() == at::kBFloat16)
      return at::bmm(grad, x.transpose(1, 2)).sum(0, /*keepdim=*/false, at::kFloat);
    return new_gradient(weight).addbmm_(grad, x.transpose(1, 2), /*beta=*/0);
  }
  static at::Tensor sum_of(const at::Tensor& grad) { return sum_rows(grad); }
};

// S is the type of x in memory, and T that of the products and the hidden layer: T is S, or S is
// BFloat16 and T is float.
template <class Products, class S, class T>
class MlpFunction : public torch::autograd::Function<MlpFunction<Products, S, T>> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& in_weight, const at::Tensor& in_bias,
                            const at::Tensor& out_weight, const at::Tensor& out_bias, bool keeps) {
    const at::Tensor h = Products::product(x.to(kTypeOf<T>), in_weight);
    at::Tensor y = h, kept = h;  // y overwrites h unless h is kept
    BFloat16* copy = nullptr;
    if (keeps && std::is_same_v<S, T>) {
      y = at::empty_like(h);
    } else if (keeps) {
      kept = at::empty(h.sizes(), h.options().dtype(kTypeOf<S>));
      copy = kept.data_ptr<BFloat16>();
    }
    gelu_rows<Products::kBiasOf, T>(h, in_bias, y, copy);
    if (keeps) context->save_for_backward({x, kept, in_weight, in_bias, out_weight});
    return Products::product(y, out_weight, out_bias).to(kTypeOf<S>);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &h = saved[1], &in_weight = saved[2], &in_bias = saved[3],
                     &out_weight = saved[4];
    const at::Tensor grad = grads[0].to(kTypeOf<T>).contiguous();
    const at::Tensor dh = Products::product(grad, out_weight.t()), y = at::empty_like(dh);
    const at::Tensor sums = empty_sums<Products::kBiasOf>(h, in_bias);
    gelu_rows_backward<Products::kBiasOf, S, T>(h, in_bias, dh, y, sums);
    variable_list result(6);
    if (context->needs_input_grad(0))
      result[0] = Products::product(dh, in_weight.t()).to(kTypeOf<S>);
    if (context->needs_input_grad(1))
      result[1] = Products::weight_gradient(dh, x.to(kTypeOf<T>), in_weight);
    if (context->needs_input_grad(2)) result[2] = sum_of_chunks(sums);
    if (context->needs_input_grad(3)) result[3] = Products::weight_gradient(grad, y, out_weight);
    if (context->needs_input_grad(4)) result[4] = Products::sum_of(grad);
    return result;
  }
};

template <class Products, class S, class T>
at::Tensor apply(const at::Tensor& x, const MlpWeights& w) {
  bool keeps = false;
  for (const at::Tensor* each : {&x, &w.in_weight, &w.in_bias, &w.out_weight, &w.out_bias})
    keeps = keeps || (each->requires_grad() && at::GradMode::is_enabled());
  return MlpFunction<Products, S, T>::apply(x, w.in_weight, w.in_bias.contiguous(), w.out_weight,
                                            w.out_bias, keeps);
}

// Whether there is a kernel for the type of x.
bool supports(const at::Tensor& x, bool bf16) {
  const bool type = x.scalar_type() == at::kFloat || (bf16 && x.scalar_type() == at::kBFloat16);
  return type && x.is_cpu() && !plain_kernels() && x.numel() > 0;
}

}  // namespace

bool mlp_fits(const at::Tensor& x, const MlpWeights& weights) {
  return supports(x, multiplies_bf16_in_float32()) && x.size(-1) == weights.in_weight.size(1);
}

at::Tensor mlp(const at::Tensor& x, const MlpWeights& weights) {
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = weights.out_weight.size(0);
  const at::Tensor rows = x.reshape({-1, x.size(-1)});
  const at::Tensor y = x.scalar_type() == at::kFloat
                           ? apply<OverFeatures, float, float>(rows, weights)
                           : apply<OverFeatures, BFloat16, float>(rows, weights);
  return y.reshape(shape);
}

bool token_mlp_fits(const at::Tensor& x, const MlpWeights& weights) {
  // LibTorch multiplies float32 with MKL here.
  const bool slow = (x.scalar_type() == at::kFloat || multiplies_bf16_in_float32()) &&
                    prefers_onednn(x.numel() * weights.in_weight.size(0));
  return supports(x, /*bf16=*/true) && !slow && x.dim() == 3 &&
         x.size(1) == weights.in_weight.size(1);
}

at::Tensor token_mlp(const at::Tensor& x, const MlpWeights& weights, bool in_float32) {
  const at::Tensor dense = x.contiguous();
  if (x.scalar_type() == at::kFloat) return apply<OverTokens, float, float>(dense, weights);
  return in_float32 ? apply<OverTokens, BFloat16, float>(dense, weights)
                    : apply<OverTokens, BFloat16, BFloat16>(dense, weights);
}

}  // namespace bv
