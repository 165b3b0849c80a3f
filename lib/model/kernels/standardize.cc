// Weight standardization. An output channel's weights are contiguous and fit in the cache: only the
// first pass over such a row reads from memory.
#include "lib/model/kernels/standardize.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/rsqrt.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>

#include "lib/device/cuda.h"
#include "lib/device/float_lanes.h"
#include "lib/device/operator_record.h"
#include "lib/device/plain_kernels.h"
#include "lib/model/kernels/device/device_check.h"

namespace bv {
namespace {

using c10::BFloat16;
using simd::kLanes;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kStandardizeGrain = 1 << 14;  // elements; fewer are not worth a thread

struct Statistics {
  float mean, var;
};

template <class Floats>
[[gnu::always_inline]] inline Statistics statistics_of(const float* w, int64_t size) {
  Floats sum = {}, square = {}, value;
  for (int64_t i = 0; i < size; i += kLanes) {
    simd::load_some(w + i, size - i, value);
    sum += value;
  }
  const auto count = static_cast<float>(size);
  const float mean = simd::sum_of(sum) / count;
  for (int64_t i = 0; i < size; i += kLanes) {
    simd::load_some(w + i, size - i, value);
    value -= mean;
    simd::keep_first(size - i, value, value);
    square += value * value;
  }
  return {mean, simd::sum_of(square) / count};
}

float inverse(float var, StandardizeRule rule) {
  if (rule == StandardizeRule::bit_paper) return static_cast<float>(1 / std::sqrt(var + kVarEps));
  return static_cast<float>(1 / (std::sqrt(static_cast<double>(var)) + kStdEps));
}

// Returns -2 times the derivative of inverse() with respect to var.
float inverse_slope(float var, StandardizeRule rule) {
  const double inv = inverse(var, rule);
  if (rule == StandardizeRule::bit_paper) return static_cast<float>(inv * inv * inv);
  return static_cast<float>(inv * inv / std::sqrt(static_cast<double>(var)));
}

template <class Floats, class T>
[[gnu::always_inline]] inline void forward_row(const float* w, T* y, int64_t size,
                                               StandardizeRule rule) {
  const Statistics s = statistics_of<Floats>(w, size);
  const float inv = inverse(s.var, rule);
  Floats value;
  for (int64_t i = 0; i < size; i += kLanes) {
    simd::load_some(w + i, size - i, value);
    simd::store_some((value - s.mean) * inv, size - i, y + i);
  }
}

// dw = inv (g - mean(g)) - (w - mean) slope mean(g (w - mean))
template <class Floats, class T>
[[gnu::always_inline]] inline void backward_row(const float* w, const T* grad, float* dw,
                                                int64_t size, StandardizeRule rule) {
  const Statistics s = statistics_of<Floats>(w, size);
  Floats sum = {}, product = {}, weight, g;
  for (int64_t i = 0; i < size; i += kLanes) {
    simd::load_some(w + i, size - i, weight);
    simd::load_some(grad + i, size - i, g);  // zeros at the end, so the products are 0 there
    sum += g;
    product += g * (weight - s.mean);
  }
  const auto count = static_cast<float>(size);
  const float inv = inverse(s.var, rule), mean_grad = simd::sum_of(sum) / count;
  const float factor = inverse_slope(s.var, rule) * (simd::sum_of(product) / count);
  for (int64_t i = 0; i < size; i += kLanes) {
    simd::load_some(w + i, size - i, weight);
    simd::load_some(grad + i, size - i, g);
    simd::store_some((g - mean_grad) * inv - (weight - s.mean) * factor, size - i, dw + i);
  }
}

// (k, k, in, out) as (out, k, k, in), and back.
at::Tensor rows_of(const at::Tensor& kernel) { return kernel.permute({3, 0, 1, 2}); }
at::Tensor kernel_of(const at::Tensor& rows) { return rows.permute({1, 2, 3, 0}); }

// Calls f(registers, at, size) for each row, within simd::dispatch(). The row has `size` elements
// and begins at element `at`.
template <class F>
void for_rows(const at::Tensor& rows, const F& f) {
  const int64_t size = rows.numel() / rows.size(0);
  at::parallel_for(0, rows.size(0), std::max<int64_t>(1, kStandardizeGrain / size),
                   [&](int64_t begin, int64_t end) {
                     simd::dispatch([&](auto registers) __attribute__((always_inline)) {
                       for (int64_t row = begin; row < end; ++row) f(registers, row * size, size);
                     });
                   });
}

template <class T>
void standardize_forward_all(const at::Tensor& rows, const at::Tensor& y, StandardizeRule rule) {
  const float* w = rows.const_data_ptr<float>();
  T* out = y.data_ptr<T>();
  const auto row = [=](auto registers, int64_t at, int64_t size) __attribute__((always_inline)) {
    forward_row<typename decltype(registers)::Floats>(w + at, out + at, size, rule);
  };
  for_rows(rows, row);
}

template <class T>
void standardize_backward_all(const at::Tensor& rows, const at::Tensor& grad, const at::Tensor& dw,
                              StandardizeRule rule) {
  const float* w = rows.const_data_ptr<float>();
  const T* g = grad.const_data_ptr<T>();
  float* out = dw.data_ptr<float>();
  const auto row = [=](auto registers, int64_t at, int64_t size) __attribute__((always_inline)) {
    backward_row<typename decltype(registers)::Floats>(w + at, g + at, out + at, size, rule);
  };
  for_rows(rows, row);
}

void forward_on_cuda(const at::Tensor& rows, const at::Tensor& y, StandardizeRule rule) {
  static auto* const run = cuda_function<RunStandardize>("bvtrain_cuda_standardize");
  run({.rows = rows.size(0),
       .size = rows.numel() / rows.size(0),
       .rule = rule,
       .w = rows.const_data_ptr<float>(),
       .y = y.mutable_data_ptr(),
       .bf16 = y.scalar_type() == at::kBFloat16},
      cuda_stream(rows.device()));
  note_kernel("bvtrain::standardize", {rows, y});
}

void backward_on_cuda(const at::Tensor& rows, const at::Tensor& grad, const at::Tensor& dw,
                      StandardizeRule rule) {
  static auto* const run =
      cuda_function<RunStandardizeGradient>("bvtrain_cuda_standardize_gradient");
  run({.rows = rows.size(0),
       .size = rows.numel() / rows.size(0),
       .rule = rule,
       .w = rows.const_data_ptr<float>(),
       .grad = grad.const_data_ptr(),
       .dw = dw.data_ptr<float>(),
       .bf16 = grad.scalar_type() == at::kBFloat16},
      cuda_stream(rows.device()));
  note_kernel("bvtrain::standardize_gradient", {rows, grad, dw});
}

class Standardize : public torch::autograd::Function<Standardize> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& kernel,
                            StandardizeRule rule, at::ScalarType type) {
    const at::Tensor rows = rows_of(kernel);
    const at::Tensor y = at::empty(rows.sizes(), rows.options().dtype(type));
    if (rows.is_cuda())
      forward_on_cuda(rows, y, rule);
    else if (type == at::kFloat)
      standardize_forward_all<float>(rows, y, rule);
    else
      standardize_forward_all<BFloat16>(rows, y, rule);
    context->save_for_backward({kernel});
    context->saved_data["rule"] = static_cast<int64_t>(rule);
    return kernel_of(y);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const at::Tensor rows = rows_of(context->get_saved_variables()[0]);
    const auto rule = static_cast<StandardizeRule>(context->saved_data["rule"].toInt());
    const at::Tensor grad = rows_of(grads[0]).contiguous();
    const at::Tensor dw = at::empty(rows.sizes(), rows.options());
    if (rows.is_cuda())
      backward_on_cuda(rows, grad, dw, rule);
    else if (grad.scalar_type() == at::kFloat)
      standardize_backward_all<float>(rows, grad, dw, rule);
    else
      standardize_backward_all<BFloat16>(rows, grad, dw, rule);
    return {kernel_of(dw), {}, {}};
  }
};

// Does the same with LibTorch's operators.
at::Tensor plain_standardize(const at::Tensor& kernel, StandardizeRule rule, at::ScalarType type) {
  const at::Tensor centred = kernel - kernel.mean({0, 1, 2}, /*keepdim=*/true);
  const at::Tensor var = centred.square().mean({0, 1, 2}, /*keepdim=*/true);
  if (rule == StandardizeRule::bit_paper) return (centred * at::rsqrt(var + kVarEps)).to(type);
  return (centred / (var.sqrt() + kStdEps)).to(type);
}

KernelCheck standardize_check(c10::Device device) {
  const at::Tensor weights = check_numbers({16, 3, 3, 8}, 1, device);  // (out, k, k, in)
  const auto by = [](const auto& function, at::ScalarType type) {
    return [=](const variable_list& all) -> variable_list {
      return {function(all[0], StandardizeRule::bit, type),
              function(all[0], StandardizeRule::bit_paper, type)};
    };
  };
  return {.inputs = {kernel_of(weights)},
          .fused = by(standardize, at::kBFloat16),
          .plain = by(plain_standardize, at::kFloat)};
}

}  // namespace

at::Tensor standardize(const at::Tensor& kernel, StandardizeRule rule, at::ScalarType type) {
  const bool fits = (kernel.is_cpu() || kernel.is_cuda()) && !plain_kernels() &&
                    kernel.scalar_type() == at::kFloat && rows_of(kernel).is_contiguous();
  const auto right = [&] {
    return fused_kernel_is_right("weight standardization", kernel.device(), standardize_check);
  };
  if (fits && (kernel.is_cpu() || right())) return Standardize::apply(kernel, rule, type);
  return plain_standardize(kernel, rule, type);
}

}  // namespace bv
