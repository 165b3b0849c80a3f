#include "lib/model/kernels/layer_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/layer_norm.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
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
//   dx = rstd (h - mean(h) - z mean(h z)).
// Adds grad * z and grad to `sums` (2, size), the gradients of scale and bias.
template <class Floats, class T>
[[gnu::always_inline]] inline void gradient(const float* x, const T* grad, const float* scale,
                                            const RowMoments& m, float* dx, float* sums,
                                            int64_t size) {
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
    simd::store((g * gain - mean - value * slope) * m.rstd, dx + k);
  }
}

template <class T>
void layer_norm_forward_all(const RowChunks& rows, const at::Tensor& x, const at::Tensor& scale,
                            const at::Tensor& bias, double eps, const at::Tensor& y,
                            RowMoments* moments) {
  const float *in = x.const_data_ptr<float>(), *gain = scale.const_data_ptr<float>(),
              *shift = bias.const_data_ptr<float>();
  T* out = y.data_ptr<T>();
  const int64_t size = rows.size;
  const auto chunk = [=](auto registers, int64_t, int64_t first, int64_t last)
      __attribute__((always_inline)) {
    using Floats = typename decltype(registers)::Floats;
    for (int64_t row = first; row < last; ++row) {
      moments[row] = row_moments<Floats>(in + row * size, size, eps);
      normalise<Floats>(in + row * size, gain, shift, moments[row], out + row * size, size);
    }
  };
  for_chunks(rows, chunk);
}

template <class T>
void layer_norm_backward_all(const RowChunks& rows, const at::Tensor& x, const at::Tensor& grad,
                             const at::Tensor& scale, const RowMoments* moments,
                             const at::Tensor& dx, float* parts) {
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
      gradient<Floats>(in + at, g + at, gain, moments[row], out + at, sums, size);
    }
  };
  for_chunks(rows, chunk);
}

RowChunks row_chunks_of(const at::Tensor& x) { return {x.numel() / x.size(-1), x.size(-1)}; }

RowMoments* data(const at::Tensor& moments) {
  return reinterpret_cast<RowMoments*>(moments.data_ptr<float>());
}

class LayerNormFunction : public torch::autograd::Function<LayerNormFunction> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& given,
                            const at::Tensor& scale, const at::Tensor& bias, double eps,
                            at::ScalarType type) {
    const at::Tensor x = given.contiguous();
    const RowChunks rows = row_chunks_of(x);
    const at::Tensor y = at::empty(x.sizes(), x.options().dtype(type));
    const at::Tensor moments = at::empty({rows.count, 2}, x.options());
    if (type == at::kFloat)
      layer_norm_forward_all<float>(rows, x, scale, bias, eps, y, data(moments));
    else
      layer_norm_forward_all<BFloat16>(rows, x, scale, bias, eps, y, data(moments));
    context->save_for_backward({x, scale, moments});
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &scale = saved[1], &moments = saved[2];
    const at::Tensor grad = grads[0].contiguous(), dx = at::empty(x.sizes(), x.options());
    const RowChunks rows = row_chunks_of(x);
    const at::Tensor parts = at::empty({rows.chunks(), 2, rows.size}, x.options());
    float* sums = parts.data_ptr<float>();
    if (grad.scalar_type() == at::kFloat)
      layer_norm_backward_all<float>(rows, x, grad, scale, data(moments), dx, sums);
    else
      layer_norm_backward_all<BFloat16>(rows, x, grad, scale, data(moments), dx, sums);
    const at::Tensor totals = sum_of_chunks(parts);
    return {dx, totals[0], totals[1], {}, {}};
  }
};

}  // namespace

at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& bias,
                      double eps, at::ScalarType type) {
  if (device_layer_norm_fits(x, std::nullopt, scale, bias))
    return device_layer_norm(x, std::nullopt, scale, bias, eps, type).second;
  const at::Tensor wide = x.to(at::kFloat);
  const int64_t size = x.size(-1);
  const bool fits = x.is_cpu() && !plain_kernels() && x.numel() > 0 && size % kLanes == 0 &&
                    scale.is_contiguous() && bias.is_contiguous() && scale.numel() == size &&
                    bias.numel() == size;
  if (fits) return LayerNormFunction::apply(wide, scale, bias, eps, type);
  return at::layer_norm(wide, {size}, scale, bias, eps).to(type);
}

std::pair<at::Tensor, at::Tensor> add_layer_norm(const at::Tensor& x, const at::Tensor& branch,
                                                 const at::Tensor& scale, const at::Tensor& bias,
                                                 double eps, at::ScalarType type) {
  const bool keeps_type = x.scalar_type() == at::kFloat || branch.scalar_type() == x.scalar_type();
  if (keeps_type && device_layer_norm_fits(x, branch, scale, bias))
    return device_layer_norm(x, branch, scale, bias, eps, type);
  const at::Tensor sum = x + branch;
  return {sum, layer_norm(sum, scale, bias, eps, type)};
}

}  // namespace bv
