#include "lib/model/kernels/layer_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/layer_norm.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "lib/device/float_lanes.h"
#include "lib/device/plain_kernels.h"
#include "lib/model/kernels/device/device_layer_norm.h"
#include "lib/model/kernels/row_chunks.h"

namespace bv {
namespace {

using c10::BFloat16;
using simd::kLanes;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The moments of a row.
struct RowMoments {
  float mean, rstd;
};

template <class Floats>
[[gnu::always_inline]] inline RowMoments row_moments(const float* x, int64_t size, double eps) {
  const auto count = static_cast<float>(size);
  Floats sum = {}, square = {}, value;
  for (int64_t k = 0; k < size; k += kLanes) {
    simd::load(x + k, value);
    sum += value;
  }
  const float mean = simd::sum_of(sum) / count;
  for (int64_t k = 0; k < size; k += kLanes) {
    simd::load(x + k, value);
    value -= mean;
    square += value * value;
  }
  return {mean, static_cast<float>(1 / std::sqrt(simd::sum_of(square) / count + eps))};
}

template <class Floats, class T>
[[gnu::always_inline]] inline void normalise(const float* x, const float* scale, const float* bias,
                                             const RowMoments& m, T* y, int64_t size) {
  for (int64_t k = 0; k < size; k += kLanes) {
    Floats value, gain, shift;
    simd::load(x + k, value);
    simd::load(scale + k, gain);
    simd::load(bias + k, shift);
    simd::store((value - m.mean) * m.rstd * gain + shift, y + k);
  }
}

// Writes the gradient of a row. Let z be the normalized row and h = grad * scale. Then
//   dx = above + rstd (h - mean(h) - z mean(h z)).
// Adds grad * z and grad to `sums` (2, size), the gradients of scale and bias. If `above` is null,
// it counts as 0. If `narrow` is not null, dx is also written there, rounded to bfloat16.
template <class Floats, class T>
[[gnu::always_inline]] inline void gradient(const float* x, const T* grad, const float* scale,
                                            const RowMoments& m, const float* above, float* dx,
                                            BFloat16* narrow, float* sums, int64_t size) {
  const auto count = static_cast<float>(size);
  Floats sum = {}, product = {}, value, g, gain;
  for (int64_t k = 0; k < size; k += kLanes) {
    simd::load(x + k, value);
    simd::load(grad + k, g);
    simd::load(scale + k, gain);
    value = (value - m.mean) * m.rstd;
    Floats dscale, dbias;
    simd::load(sums + k, dscale);
    simd::load(sums + size + k, dbias);
    simd::store(dscale + g * value, sums + k);
    simd::store(dbias + g, sums + size + k);
    g *= gain;
    sum += g;
    product += g * value;
  }
  const float mean = simd::sum_of(sum) / count, slope = simd::sum_of(product) / count;
  for (int64_t k = 0; k < size; k += kLanes) {
    simd::load(x + k, value);
    simd::load(grad + k, g);
    simd::load(scale + k, gain);
    value = (value - m.mean) * m.rstd;
    value = (g * gain - mean - value * slope) * m.rstd;
    if (above != nullptr) {
      simd::load(above + k, g);
      value += g;
    }
    simd::store(value, dx + k);
    if (narrow != nullptr) simd::store(value, narrow + k);
  }
}

// Where the rows to normalize come from. Given: x already holds them. Sum: each is the sum of the
// rows of two tensors, and is first written to x.
struct Given {};
template <class T>
struct Sum {
  const float* x;
  const T* branch;
};

template <class Floats, class T>
[[gnu::always_inline]] inline void add_row(const Sum<T>& terms, int64_t at, int64_t size,
                                           float* to) {
  for (int64_t k = 0; k < size; k += kLanes) {
    Floats value, more;
    simd::load(terms.x + at + k, value);
    simd::load(terms.branch + at + k, more);
    simd::store(value + more, to + k);
  }
}
template <class Floats>
[[gnu::always_inline]] inline void add_row(const Given&, int64_t, int64_t, float*) {}

// Writes the normalized rows of x to y. If `terms` is a Sum, x is an output too: its rows become
// the sums before they are normalized.
template <class T, class Terms>
void layer_norm_forward_all(const RowChunks& rows, const Terms& terms, const at::Tensor& x,
                            const at::Tensor& scale, const at::Tensor& bias, double eps,
                            const at::Tensor& y, RowMoments* moments) {
  const float *gain = scale.const_data_ptr<float>(), *shift = bias.const_data_ptr<float>();
  float* const in = x.data_ptr<float>();
  T* const out = y.data_ptr<T>();
  const int64_t size = rows.size;
  const auto chunk = [=](auto registers, int64_t, int64_t first, int64_t last)
      __attribute__((always_inline)) {
    using Floats = typename decltype(registers)::Floats;
    for (int64_t row = first; row < last; ++row) {
      const int64_t at = row * size;
      add_row<Floats>(terms, at, size, in + at);
      moments[row] = row_moments<Floats>(in + at, size, eps);
      normalise<Floats>(in + at, gain, shift, moments[row], out + at, size);
    }
  };
  for_chunks(rows, chunk);
}

// `above` and `narrow`: see gradient().
template <class T>
void layer_norm_backward_all(const RowChunks& rows, const at::Tensor& x, const at::Tensor& grad,
                             const at::Tensor& scale, const RowMoments* moments, const float* above,
                             const at::Tensor& dx, BFloat16* narrow, float* parts) {
  const float *in = x.const_data_ptr<float>(), *gain = scale.const_data_ptr<float>();
  const T* g = grad.const_data_ptr<T>();
  float* out = dx.data_ptr<float>();
  const int64_t size = rows.size;
  const auto chunk = [=](auto registers, int64_t i, int64_t first, int64_t last)
      __attribute__((always_inline)) {
    using Floats = typename decltype(registers)::Floats;
    float* sums = parts + i * 2 * size;
    std::fill_n(sums, 2 * size, 0.0F);
    for (int64_t row = first; row < last; ++row) {
      const int64_t at = row * size;
      gradient<Floats>(in + at, g + at, gain, moments[row], above ? above + at : nullptr, out + at,
                       narrow ? narrow + at : nullptr, sums, size);
    }
  };
  for_chunks(rows, chunk);
}

RowChunks row_chunks_of(const at::Tensor& x) { return {x.numel() / x.size(-1), x.size(-1)}; }

RowMoments* data(const at::Tensor& moments) {
  return reinterpret_cast<RowMoments*>(moments.data_ptr<float>());
}

// The normalized rows, and the moments of each row, which the backward pass needs.
struct Normalised {
  at::Tensor y, moments;
};

template <class Terms>
Normalised normalise_all(const Terms& terms, const at::Tensor& x, const at::Tensor& scale,
                         const at::Tensor& bias, double eps, at::ScalarType type) {
  const RowChunks rows = row_chunks_of(x);
  Normalised to = {at::empty(x.sizes(), x.options().dtype(type)),
                   at::empty({rows.count, 2}, x.options())};
  if (type == at::kFloat)
    layer_norm_forward_all<float>(rows, terms, x, scale, bias, eps, to.y, data(to.moments));
  else
    layer_norm_forward_all<BFloat16>(rows, terms, x, scale, bias, eps, to.y, data(to.moments));
  return to;
}

// Returns the gradients of x, scale and bias for the gradient `given` of the normalized rows. Adds
// `above`, if it is defined, to the gradient of x. Writes the gradient of x also to `narrow`, if it
// is defined, rounded to bfloat16.
std::array<at::Tensor, 3> gradients_of(const variable_list& saved, const at::Tensor& given,
                                       const at::Tensor& above, const at::Tensor& narrow) {
  const at::Tensor &x = saved[0], &scale = saved[1], &moments = saved[2];
  const at::Tensor grad = given.contiguous(), dx = at::empty(x.sizes(), x.options());
  const RowChunks rows = row_chunks_of(x);
  const at::Tensor parts = at::empty({rows.chunks(), 2, rows.size}, x.options());
  const float* more = above.defined() ? above.const_data_ptr<float>() : nullptr;
  BFloat16* copy = narrow.defined() ? narrow.data_ptr<BFloat16>() : nullptr;
  float* sums = parts.data_ptr<float>();
  if (grad.scalar_type() == at::kFloat)
    layer_norm_backward_all<float>(rows, x, grad, scale, data(moments), more, dx, copy, sums);
  else
    layer_norm_backward_all<BFloat16>(rows, x, grad, scale, data(moments), more, dx, copy, sums);
  const at::Tensor totals = sum_of_chunks(parts);
  return {dx, totals[0], totals[1]};
}

class LayerNormFunction : public torch::autograd::Function<LayerNormFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& given,
                            const at::Tensor& scale, const at::Tensor& bias, double eps,
                            at::ScalarType type) {
    const at::Tensor x = given.contiguous();
    const Normalised to = normalise_all(Given(), x, scale, bias, eps, type);
    context->save_for_backward({x, scale, to.moments});
    return to.y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const auto [dx, dscale, dbias] =
        gradients_of(context->get_saved_variables(), grads[0], /*above=*/{}, /*narrow=*/{});
    return {dx, dscale, dbias, {}, {}};
  }
};

// Returns the sum of x and branch too. In backward one pass also adds the gradient of the sum, and
// rounds the result for a branch in bfloat16.
class AddLayerNormFunction : public torch::autograd::Function<AddLayerNormFunction> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& x,
                               const at::Tensor& branch, const at::Tensor& scale,
                               const at::Tensor& bias, double eps, at::ScalarType type) {
    const at::Tensor sum = at::empty(x.sizes(), x.options());
    const float* from = x.const_data_ptr<float>();
    const bool narrow = branch.scalar_type() == at::kBFloat16;
    const Normalised to =
        narrow ? normalise_all(Sum<BFloat16>{from, branch.const_data_ptr<BFloat16>()}, sum, scale,
                               bias, eps, type)
               : normalise_all(Sum<float>{from, branch.const_data_ptr<float>()}, sum, scale, bias,
                               eps, type);
    context->save_for_backward({sum, scale, to.moments});
    context->saved_data["narrow"] = narrow;
    context->set_materialize_grads(false);  // the last sum of a model has no gradient
    return {sum, to.y};
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const bool narrow = context->saved_data["narrow"].toBool();
    const at::Tensor above = grads[0].defined() ? grads[0].contiguous() : at::Tensor();
    if (!grads[1].defined())  // only the sum was used
      return {above, above.defined() && narrow ? above.to(at::kBFloat16) : above, {}, {}, {}, {}};
    const variable_list saved = context->get_saved_variables();
    const at::Tensor rounded =
        narrow ? at::empty(saved[0].sizes(), saved[0].options().dtype(at::kBFloat16))
               : at::Tensor();
    const auto [dx, dscale, dbias] = gradients_of(saved, grads[1], above, rounded);
    return {dx, narrow ? rounded : dx, dscale, dbias, {}, {}};
  }
};

// Whether the kernels above take rows of x, on a CPU.
bool layer_norm_fits(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& bias) {
  const int64_t size = x.size(-1);
  return x.is_cpu() && !plain_kernels() && x.numel() > 0 && size % kLanes == 0 &&
         scale.is_contiguous() && bias.is_contiguous() && scale.numel() == size &&
         bias.numel() == size;
}

}  // namespace

at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& bias,
                      double eps, at::ScalarType type) {
  if (device_layer_norm_fits(x, std::nullopt, scale, bias))
    return device_layer_norm(x, std::nullopt, scale, bias, eps, type).second;
  const at::Tensor wide = x.to(at::kFloat);
  if (layer_norm_fits(x, scale, bias))
    return LayerNormFunction::apply(wide, scale, bias, eps, type);
  return at::layer_norm(wide, {x.size(-1)}, scale, bias, eps).to(type);
}

std::pair<at::Tensor, at::Tensor> add_layer_norm(const at::Tensor& x, const at::Tensor& branch,
                                                 const at::Tensor& scale, const at::Tensor& bias,
                                                 double eps, at::ScalarType type) {
  const bool keeps_type = x.scalar_type() == at::kFloat || branch.scalar_type() == x.scalar_type();
  if (keeps_type && device_layer_norm_fits(x, branch, scale, bias))
    return device_layer_norm(x, branch, scale, bias, eps, type);
  if (layer_norm_fits(x, scale, bias) && x.scalar_type() == at::kFloat && x.is_contiguous() &&
      branch.is_contiguous() && branch.sizes() == x.sizes()) {
    const variable_list both = AddLayerNormFunction::apply(x, branch, scale, bias, eps, type);
    return {both[0], both[1]};
  }
  const at::Tensor sum = x + branch;
  return {sum, layer_norm(sum, scale, bias, eps, type)};
}

}  // namespace bv
