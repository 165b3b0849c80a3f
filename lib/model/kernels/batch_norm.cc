// Batch normalization, ReLU and max pool of channels_last activations. Forward and backward each
// read the activations twice. Only x is saved for backward, which recomputes where the ReLU was
// active and where the maxima were.
#include "lib/model/kernels/batch_norm.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/var_mean.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <tuple>

#include "lib/device/float_lanes.h"
#include "lib/device/plain_kernels.h"
#include "lib/model/kernels/channels_last.h"
#include "lib/model/kernels/moments.h"

namespace bv {
namespace {

using c10::BFloat16;
using simd::kLanes;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Elements per partial sum: few enough for float32 precision and for the cache.
constexpr int64_t kBatchNormChunk = 32768;

// The normalization as one multiply-add per channel: y = relu(x * gain + shift).
struct Affine {
  const float *gain, *shift, *mean;
  // (3, c): gain, shift, mean
  explicit Affine(const at::Tensor& rows)
      : gain(rows.const_data_ptr<float>()),
        shift(gain + rows.size(1)),
        mean(shift + rows.size(1)) {}
};

// Computes two sums per channel, over rows of `size` values. It divides the rows into chunks. For
// each, sum(first_row, last_row, sums) writes 2 * c sums of type Number (float or double). The sums
// of all chunks are added in double precision. Returns (2, c) float64.
template <class Number, class Sum>
at::Tensor sum_rows(int64_t rows, int64_t size, int64_t c, const Sum& sum) {
  const int64_t step = std::max<int64_t>(1, kBatchNormChunk / size);
  const int64_t chunks = (rows + step - 1) / step;
  const at::Tensor parts = at::empty({chunks, 2 * c}, c10::CppTypeToScalarType<Number>::value);
  auto* all = parts.data_ptr<Number>();
  at::parallel_for(0, chunks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      sum(i * step, std::min(rows, (i + 1) * step), all + i * 2 * c);
    }
  });
  return parts.to(at::kDouble).sum(0).view({2, c});
}

// Finds the first maximum of the normalized values in a window of Pool x Pool pixels: `best` is
// its value, `best_x` is x there.
template <int Pool, class T, class Floats>
[[gnu::always_inline]] inline void maximum(const T* x, int64_t c, int64_t stride,
                                           const Floats& gain, const Floats& shift, Floats& best,
                                           Floats& best_x) {
  simd::load(x, best_x);
  best = best_x * gain + shift;
  if constexpr (Pool == 2) {
    const T* const others[3] = {x + c, x + stride, x + stride + c};
#pragma GCC unroll 3
    for (int i = 0; i < 3; ++i) {
      Floats other_x;
      simd::load(others[i], other_x);
      const Floats other = other_x * gain + shift;
      simd::IntsOf<Floats> less;
      simd::at_most(other, best, less);  // false if either is NaN: then `other` is taken
      simd::choose(less, best_x, other_x, best_x);
      simd::choose(less, best, other, best);
    }
  }
}

// Offsets of rows in the input and the output. An output row is ow windows of Pool x Pool pixels
// with c channels.
template <int Pool>
struct Rows {
  int64_t c, h, w;
  int64_t oh() const { return h / Pool; }
  int64_t ow() const { return w / Pool; }
  int64_t stride() const { return w * c; }
  int64_t input(int64_t row) const { return ((row / oh()) * h + Pool * (row % oh())) * w * c; }
  int64_t output(int64_t row) const { return row * ow() * c; }
};

template <class Floats, int Pool, class T>
[[gnu::always_inline]] inline void normalise_row(const T* x, T* y, const Affine& affine,
                                                 const Rows<Pool>& r) {
  for (int64_t pixel = 0; pixel < r.ow(); ++pixel, x += Pool * r.c, y += r.c) {
    for (int64_t k = 0; k < r.c; k += kLanes) {
      Floats gain, shift, best, best_x;
      simd::load(affine.gain + k, gain);
      simd::load(affine.shift + k, shift);
      maximum<Pool>(x + k, r.c, r.stride(), gain, shift, best, best_x);
      simd::IntsOf<Floats> dead;
      simd::not_positive(best, dead);
      simd::keep(~dead, best, best);
      simd::store(best, y + k);
    }
  }
}

// Sums g and g * (x - mean), where g is the gradient after the ReLU and the max pool.
template <class Floats, int Pool, class T>
[[gnu::always_inline]] inline void gradient_sums(const T* x, const T* grad, int64_t first,
                                                 int64_t last, const Affine& affine,
                                                 const Rows<Pool>& r, float* sums) {
  for (int64_t k = 0; k < r.c; k += kLanes) {
    Floats gain, shift, mean, sum = {}, product = {};
    simd::load(affine.gain + k, gain);
    simd::load(affine.shift + k, shift);
    simd::load(affine.mean + k, mean);
    for (int64_t row = first; row < last; ++row) {
      const T* from = x + r.input(row) + k;
      const T* g = grad + r.output(row) + k;
      for (int64_t pixel = 0; pixel < r.ow(); ++pixel, from += Pool * r.c, g += r.c) {
        Floats best, best_x, value;
        maximum<Pool>(from, r.c, r.stride(), gain, shift, best, best_x);
        simd::load(g, value);
        simd::IntsOf<Floats> dead;
        simd::not_positive(best, dead);
        simd::keep(~dead, value, value);
        sum += value;
        product += value * (best_x - mean);
      }
    }
    simd::store(sum, sums + k);
    simd::store(product, sums + r.c + k);
  }
}

// dx = gain * g + slope * x + offset; g goes to the maximum of each window only.
struct Gradient {
  Affine affine;
  const float *slope, *offset;
};

template <class Floats, int Pool, class T>
[[gnu::always_inline]] inline void gradient_row(const T* x, const T* grad, T* dx,
                                                const Gradient& gradient, const Rows<Pool>& r) {
  const int64_t places[4] = {0, r.c, r.stride(), r.stride() + r.c};
  for (int64_t pixel = 0; pixel < r.ow(); ++pixel, x += Pool * r.c, dx += Pool * r.c, grad += r.c) {
    for (int64_t k = 0; k < r.c; k += kLanes) {
      Floats gain, shift, slope, offset, best, best_x, value;
      simd::load(gradient.affine.gain + k, gain);
      simd::load(gradient.affine.shift + k, shift);
      simd::load(gradient.slope + k, slope);
      simd::load(gradient.offset + k, offset);
      maximum<Pool>(x + k, r.c, r.stride(), gain, shift, best, best_x);
      simd::load(grad + k, value);
      simd::IntsOf<Floats> dead;
      simd::not_positive(best, dead);
      Floats rest;  // zero once a pixel has taken it
      simd::keep(~dead, value * gain, rest);
#pragma GCC unroll 4
      for (int p = 0; p < Pool * Pool; ++p) {
        Floats at;
        simd::load(x + places[p] + k, at);
        simd::IntsOf<Floats> is_best;
        simd::same_bits(at, best_x, is_best);
        Floats part;
        simd::keep(is_best, rest, part);
        simd::keep(~is_best, rest, rest);
        simd::store(part + at * slope + offset, dx + places[p] + k);
      }
    }
  }
}

template <class T>
at::Tensor channel_moments(const at::Tensor& x) {
  const int64_t c = x.size(1);
  const T* in = x.const_data_ptr<T>();
  return sum_rows<double>(x.numel() / c, c, c, [=](int64_t first, int64_t last, double* sums) {
    simd::dispatch([=](auto registers) __attribute__((always_inline)) {
      using Floats = typename decltype(registers)::Floats;
      simd::moments<Floats>(in + first * c, last - first, c, sums);
    });
  });
}

template <int Pool, class T>
void batch_norm_forward_all(const at::Tensor& x, const at::Tensor& affine, const at::Tensor& y) {
  const Rows<Pool> r = {x.size(1), x.size(2), x.size(3)};
  const Affine a(affine);
  const T* in = x.const_data_ptr<T>();
  T* out = y.data_ptr<T>();
  at::parallel_for(0, x.size(0) * r.oh(), 8, [&](int64_t begin, int64_t end) {
    simd::dispatch([=](auto registers) __attribute__((always_inline)) {
      using Floats = typename decltype(registers)::Floats;
      for (int64_t row = begin; row < end; ++row) {
        normalise_row<Floats, Pool>(in + r.input(row), out + r.output(row), a, r);
      }
    });
  });
}

template <int Pool, class T>
at::Tensor gradient_sums_of(const at::Tensor& x, const at::Tensor& grad, const at::Tensor& affine) {
  const Rows<Pool> r = {x.size(1), x.size(2), x.size(3)};
  const Affine a(affine);
  const T* in = x.const_data_ptr<T>();
  const T* g = grad.const_data_ptr<T>();
  const auto sum = [=](int64_t first, int64_t last, float* sums) {
    simd::dispatch([=](auto registers) __attribute__((always_inline)) {
      using Floats = typename decltype(registers)::Floats;
      gradient_sums<Floats, Pool>(in, g, first, last, a, r, sums);
    });
  };
  return sum_rows<float>(x.size(0) * r.oh(), Pool * r.stride(), r.c, sum);
}

template <int Pool, class T>
void batch_norm_backward_all(const at::Tensor& x, const at::Tensor& grad, const at::Tensor& affine,
                             const at::Tensor& correction, const at::Tensor& dx) {
  const Rows<Pool> r = {x.size(1), x.size(2), x.size(3)};
  const float* slope = correction.const_data_ptr<float>();
  const Gradient gradient = {Affine(affine), slope, slope + r.c};
  const T* in = x.const_data_ptr<T>();
  const T* g = grad.const_data_ptr<T>();
  T* out = dx.data_ptr<T>();
  at::parallel_for(0, x.size(0) * r.oh(), 8, [&](int64_t begin, int64_t end) {
    simd::dispatch([=](auto registers) __attribute__((always_inline)) {
      using Floats = typename decltype(registers)::Floats;
      for (int64_t row = begin; row < end; ++row) {
        gradient_row<Floats, Pool>(in + r.input(row), g + r.output(row), out + r.input(row),
                                   gradient, r);
      }
    });
  });
}

// Calls f<Pool, T>() for this pool and the type of x.
template <class F>
auto dispatch_batch_norm(const at::Tensor& x, bool max_pool, const F& f) {
  if (x.scalar_type() == at::kFloat) {
    return max_pool ? f.template operator()<2, float>() : f.template operator()<1, float>();
  }
  return max_pool ? f.template operator()<2, BFloat16>() : f.template operator()<1, BFloat16>();
}

class BatchNormRelu : public torch::autograd::Function<BatchNormRelu> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& scale,
                            const at::Tensor& bias, const BatchStatistics& statistics, double eps,
                            bool max_pool) {
    const int64_t n = x.size(0), c = x.size(1), pool = max_pool ? 2 : 1;
    const at::Tensor& mean = statistics.mean;
    const at::Tensor invstd = at::rsqrt(statistics.var + eps);
    const at::Tensor gain = scale * invstd;
    const at::Tensor affine = at::stack({gain, bias - mean * gain, mean});  // (3, c)
    const at::Tensor y = at::empty({n, c, x.size(2) / pool, x.size(3) / pool},
                                   x.options().memory_format(kChannelsLast));
    dispatch_batch_norm(
        x, max_pool, [&]<int Pool, class T>() { batch_norm_forward_all<Pool, T>(x, affine, y); });
    context->save_for_backward({x, affine, invstd});
    context->saved_data["max_pool"] = max_pool;
    context->saved_data["rows"] = statistics.rows;
    context->saved_data["group"] = reinterpret_cast<int64_t>(statistics.group);
    context->saved_data["constant"] = statistics.constant;
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &affine = saved[1], &invstd = saved[2];
    const bool max_pool = context->saved_data["max_pool"].toBool();
    const at::Tensor grad = grads[0].contiguous(kChannelsLast);
    const at::Tensor dx = at::empty(x.sizes(), x.options().memory_format(kChannelsLast));
    if (context->saved_data["constant"].toBool()) {
      const at::Tensor none = at::zeros({2, x.size(1)}, affine.options());
      dispatch_batch_norm(x, max_pool, [&]<int Pool, class T>() {
        batch_norm_backward_all<Pool, T>(x, grad, affine, none, dx);
      });
      return {dx, {}, {}, {}, {}, {}};
    }
    const double rows = context->saved_data["rows"].toDouble();
    auto* group = reinterpret_cast<Group*>(context->saved_data["group"].toInt());

    const at::Tensor sums = dispatch_batch_norm(x, max_pool, [&]<int Pool, class T>() {
      return gradient_sums_of<Pool, T>(x, grad, affine);
    });
    // The gradient of x needs the sums over all ranks. Those of scale and bias are this rank's
    // share, as for all parameters: the training step sums them over ranks.
    const at::Tensor dbias = sums[0], dscale = sums[1] * invstd;
    at::Tensor all = sums;
    if (group->size() > 1) {
      all = sums.clone();
      group->all_reduce_sum(all, "batch norm, backward").wait();
    }
    const at::Tensor gain = affine[0], mean = affine[2];
    const at::Tensor slope = -gain * all[1] * invstd * invstd / rows;
    const at::Tensor correction =
        at::stack({slope, -gain * all[0] / rows - slope * mean});  // (2, c)
    dispatch_batch_norm(x, max_pool, [&]<int Pool, class T>() {
      batch_norm_backward_all<Pool, T>(x, grad, affine, correction.to(at::kFloat), dx);
    });
    return {dx, dscale.to(at::kFloat), dbias.to(at::kFloat), {}, {}, {}};
  }
};

}  // namespace

bool batch_norm_fits(const at::Tensor& x, bool max_pool) {
  const bool type = x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16;
  const bool covered = !max_pool || (x.size(2) % 2 == 0 && x.size(3) % 2 == 0);
  return x.is_cpu() && !plain_kernels() && type && covered && x.size(1) % kLanes == 0 &&
         x.is_contiguous(kChannelsLast);
}

BatchStatistics batch_statistics(const at::Tensor& x, Group& group) {
  const auto rows = static_cast<double>(x.numel() / x.size(1));
  at::Tensor mean, var;  // (c) float64
  if (batch_norm_fits(x, /*max_pool=*/false)) {
    const at::Tensor sums =
        x.scalar_type() == at::kFloat ? channel_moments<float>(x) : channel_moments<BFloat16>(x);
    mean = sums[0] / rows;
    var = (sums[1] / rows - mean.square()).clamp_min(0);
  } else {
    // On a GPU, float64 is slow and large. There, var_mean() sums float32 pairwise, by Welford's
    // method.
    const at::Tensor values = x.to(x.is_cpu() ? at::kDouble : at::kFloat);
    std::tie(var, mean) = at::var_mean(values, {0, 2, 3}, /*unbiased=*/false);
    var = var.to(at::kDouble);
    mean = mean.to(at::kDouble);
  }
  if (group.size() == 1) return {mean.to(at::kFloat), var.to(at::kFloat), rows};
  // All ranks have equal parts, so the mean is the mean of the means, and the variance is the mean
  // of the variances plus the variance of the means.
  const at::Tensor own = at::stack({mean, var});
  const at::Tensor parts = at::empty({group.size(), 2, x.size(1)}, own.options());
  group.all_gather(parts, own, "batch norm").wait();
  const at::Tensor means = parts.select(1, 0), centre = means.mean(0);
  const at::Tensor spread = (means - centre).square().mean(0) + parts.select(1, 1).mean(0);
  return {centre.to(at::kFloat), spread.to(at::kFloat), rows * group.size(), &group};
}

at::Tensor batch_norm_relu(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& bias,
                           const BatchStatistics& statistics, double eps, bool max_pool) {
  return BatchNormRelu::apply(x, scale, bias, statistics, eps, max_pool);
}

}  // namespace bv
