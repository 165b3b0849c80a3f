// Group normalisation of channels_last activations, fused with what follows it. Forward reads the
// activations twice and writes once; backward reads activations and gradients twice. With enough
// images each thread takes whole images, so an image that fits into its cache is read from memory
// once.
#include "lib/model/kernels/group_norm.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <vector>

#include "lib/device/float_lanes.h"
#include "lib/device/plain_kernels.h"

namespace bv {
namespace {

using c10::BFloat16;
using simd::Floats;
using simd::Ints;
using simd::kLanes;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;

// Elements of a partial sum in float32: few enough for its precision and for the cache.
constexpr int64_t kChunk = 32768;

struct Shape {
  int64_t n, c, pixels, groups;
  int64_t group_size() const { return c / groups; }
  int64_t chunk_pixels() const { return std::max<int64_t>(1, kChunk / c); }
  int64_t chunks() const { return (pixels + chunk_pixels() - 1) / chunk_pixels(); }
};

// Some pixels of one image.
struct ImagePart {
  int64_t image, first, pixels;  // first: an index into the pixels of all images
};

// The tables of each image, (n, kTables, c) float32. y = x * gain + shift.
enum NormTable { kGain, kShift, kMean, kRstd, kTables };

struct Tables {
  const float *gain, *shift, *mean;
  Tables(const at::Tensor& tables, int64_t image)
      : gain(tables.const_data_ptr<float>() + image * kTables * tables.size(2)),
        shift(gain + kShift * tables.size(2)),
        mean(gain + kMean * tables.size(2)) {}
};

// For each image: calls sum(part, sums) for each chunk, which writes 2 * c sums; then
// finish(image, sums) with their totals; then apply(part) for each chunk. The order of additions is
// fixed.
template <class Sum, class Finish, class Apply>
void sum_then_apply(const Shape& s, const Sum& sum, const Finish& finish, const Apply& apply) {
  const int64_t chunks = s.chunks();
  const auto part = [&](int64_t image, int64_t chunk) {
    const int64_t first = chunk * s.chunk_pixels();
    return ImagePart{image, image * s.pixels + first, std::min(s.chunk_pixels(), s.pixels - first)};
  };
  const auto total = [&](int64_t image, const double* parts) {
    std::vector<double> totals(2 * s.c, 0.0);
    for (int64_t chunk = 0; chunk < chunks; ++chunk, parts += 2 * s.c) {
      for (int64_t k = 0; k < 2 * s.c; ++k) totals[k] += parts[k];
    }
    finish(image, totals.data());
  };
  const int64_t threads = at::get_num_threads();
  if (s.n % threads == 0 || s.n >= 4 * threads) {
    at::parallel_for(0, s.n, 1, [&](int64_t begin, int64_t end) {
      std::vector<double> parts(chunks * 2 * s.c);
      for (int64_t i = begin; i < end; ++i) {
        for (int64_t j = 0; j < chunks; ++j) sum(part(i, j), parts.data() + j * 2 * s.c);
        total(i, parts.data());
        for (int64_t j = 0; j < chunks; ++j) apply(part(i, j));
      }
    });
    return;
  }
  std::vector<double> parts(s.n * chunks * 2 * s.c);
  at::parallel_for(0, s.n * chunks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; ++j) {
      sum(part(j / chunks, j % chunks), parts.data() + j * 2 * s.c);
    }
  });
  for (int64_t i = 0; i < s.n; ++i) total(i, parts.data() + i * chunks * 2 * s.c);
  at::parallel_for(0, s.n * chunks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; ++j) apply(part(j / chunks, j % chunks));
  });
}

// Calls f.template operator()<V>(k) for all channels k, V vectors at a time.
template <class F>
[[gnu::always_inline]] inline void for_channels(int64_t c, const F& f) {
  int64_t k = 0;
  for (; k + 2 * kLanes <= c; k += 2 * kLanes) f.template operator()<2>(k);
  if (k < c) f.template operator()<1>(k);
}

[[gnu::always_inline]] inline void store_double(const Floats& from, double* to) {
  typedef double DoublesAt __attribute__((vector_size(128), aligned(8), may_alias));
  *reinterpret_cast<DoublesAt*>(to) = __builtin_convertvector(from, DoublesAt);
}

// Sums x and its square over `pixels`, for V vectors of channels. The float32 sums are those of x
// minus its mean over these pixels, so neither a large mean nor one large value costs them digits.
template <int V, class T>
[[gnu::always_inline]] inline void moments(const T* x, int64_t pixels, int64_t c, double* sums) {
  Floats mean[V] = {}, rest[V] = {}, square[V] = {};
  for (int64_t p = 0; p < pixels; ++p) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) {
      Floats value;
      simd::load(x + p * c + v * kLanes, value);
      mean[v] += value;
    }
  }
#pragma GCC unroll 2
  for (int v = 0; v < V; ++v) mean[v] /= static_cast<float>(pixels);
  for (int64_t p = 0; p < pixels; ++p) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) {
      Floats value;
      simd::load(x + p * c + v * kLanes, value);
      value -= mean[v];
      rest[v] += value;
      square[v] += value * value;
    }
  }
  const auto count = static_cast<double>(pixels);
  for (int v = 0; v < V; ++v) {
    double *sum = sums + v * kLanes, *squares = sum + c, means[kLanes];
    store_double(mean[v], means);
    store_double(rest[v], sum);
    store_double(square[v], squares);
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      squares[lane] += means[lane] * (2 * sum[lane] + count * means[lane]);
      sum[lane] += count * means[lane];
    }
  }
}

// Sets g to 0 where the ReLU is inactive (y <= 0). y may be the ReLU's input or its output: both
// are positive at the same places. A NaN counts as active.
template <NormTail Tail>
[[gnu::always_inline]] inline void mask_gradient(const Floats& y, Floats& g) {
  if constexpr (Tail == NormTail::nothing) return;
  Ints dead;
  simd::not_positive(y, dead);
  simd::keep(~dead, g, g);
}

template <NormTail Tail, class T, class Y>
[[gnu::always_inline]] inline void normalise(const T* x, const float* shortcut, Y* y,
                                             int64_t pixels, int64_t c, const Tables& tables) {
  for (int64_t p = 0; p < pixels; ++p) {
    for (int64_t k = 0; k < c; k += kLanes) {
      const int64_t at = p * c + k;
      Floats value, gain, shift;
      simd::load(x + at, value);
      simd::load(tables.gain + k, gain);
      simd::load(tables.shift + k, shift);
      value = value * gain + shift;
      if constexpr (Tail == NormTail::add_relu) {
        Floats other;
        simd::load(shortcut + at, other);
        value += other;
      }
      mask_gradient<Tail>(value, value);  // the ReLU itself
      simd::store(value, y + at);
    }
  }
}

// Sums g and g * (x - mean), where g is the gradient before the ReLU.
template <int V, NormTail Tail, class T, class Y>
[[gnu::always_inline]] inline void gradient_sums(const T* x, const Y* y, const Y* grad,
                                                 int64_t pixels, int64_t c, int64_t k,
                                                 const Tables& tables, double* sums) {
  Floats gain[V], shift[V], mean[V], sum[V] = {}, product[V] = {};
#pragma GCC unroll 2
  for (int v = 0; v < V; ++v) {
    simd::load(tables.gain + k + v * kLanes, gain[v]);
    simd::load(tables.shift + k + v * kLanes, shift[v]);
    simd::load(tables.mean + k + v * kLanes, mean[v]);
  }
  for (int64_t p = 0; p < pixels; ++p) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) {
      const int64_t at = p * c + k + v * kLanes;
      Floats value, g, out;
      simd::load(x + at, value);
      simd::load(grad + at, g);
      if constexpr (Tail == NormTail::add_relu)
        simd::load(y + at, out);
      else
        out = value * gain[v] + shift[v];
      mask_gradient<Tail>(out, g);
      sum[v] += g;
      product[v] += g * (value - mean[v]);
    }
  }
#pragma GCC unroll 2
  for (int v = 0; v < V; ++v) {
    store_double(sum[v], sums + k + v * kLanes);
    store_double(product[v], sums + c + k + v * kLanes);
  }
}

// dx = gain * g + slope * x + offset, and the gradient of the shortcut is g.
template <NormTail Tail, class T, class Y>
[[gnu::always_inline]] inline void gradient(const T* x, const Y* y, const Y* grad, T* dx,
                                            float* dshortcut, int64_t pixels, int64_t c,
                                            const Tables& tables, const float* slopes,
                                            const float* offsets) {
  for (int64_t p = 0; p < pixels; ++p) {
    for (int64_t k = 0; k < c; k += kLanes) {
      const int64_t at = p * c + k;
      Floats value, g, out, gain, shift, slope, offset;
      simd::load(x + at, value);
      simd::load(grad + at, g);
      simd::load(tables.gain + k, gain);
      simd::load(tables.shift + k, shift);
      simd::load(slopes + k, slope);
      simd::load(offsets + k, offset);
      if constexpr (Tail == NormTail::add_relu)
        simd::load(y + at, out);
      else
        out = value * gain + shift;
      mask_gradient<Tail>(out, g);
      if constexpr (Tail == NormTail::add_relu) simd::store(g, dshortcut + at);
      simd::store(g * gain + value * slope + offset, dx + at);
    }
  }
}

// Turns the sums of moments() of an image into its tables.
void fill_tables(const Shape& s, const double* sums, const float* scale, const float* bias,
                 double eps, float* tables) {
  const auto count = static_cast<double>(s.pixels * s.group_size());
  for (int64_t g = 0; g < s.groups; ++g) {
    const int64_t first = g * s.group_size(), last = first + s.group_size();
    const double mean = std::accumulate(sums + first, sums + last, 0.0) / count;
    const double square = std::accumulate(sums + s.c + first, sums + s.c + last, 0.0) / count;
    // In this order a NaN stays: std::max(0.0, NaN) is 0.
    const double var = std::max(square - mean * mean, 0.0), rstd = 1 / std::sqrt(var + eps);
    for (int64_t k = first; k < last; ++k) {
      const double gain = scale[k] * rstd;
      tables[kGain * s.c + k] = static_cast<float>(gain);
      tables[kShift * s.c + k] = static_cast<float>(bias[k] - mean * gain);
      tables[kMean * s.c + k] = static_cast<float>(mean);
      tables[kRstd * s.c + k] = static_cast<float>(rstd);
    }
  }
}

// Computes from the sums of gradient_sums() of an image: `corrections` (2, c), its slopes and
// offsets; and `shares` (2, c), its part of the gradients of bias and scale.
void fill_gradient_tables(const Shape& s, const double* sums, const float* scale,
                          const float* tables, float* corrections, double* shares) {
  const auto count = static_cast<double>(s.pixels * s.group_size());
  for (int64_t g = 0; g < s.groups; ++g) {
    const int64_t first = g * s.group_size(), last = first + s.group_size();
    const double mean = tables[kMean * s.c + first], rstd = tables[kRstd * s.c + first];
    double sum = 0, product = 0;
    for (int64_t k = first; k < last; ++k) {
      sum += scale[k] * sums[k];
      product += scale[k] * sums[s.c + k];
      shares[k] = sums[k];
      shares[s.c + k] = sums[s.c + k] * rstd;
    }
    const double slope = -rstd * rstd * rstd * product / count;
    const double offset = -rstd * sum / count - slope * mean;
    std::fill(corrections + first, corrections + last, static_cast<float>(slope));
    std::fill(corrections + s.c + first, corrections + s.c + last, static_cast<float>(offset));
  }
}

template <NormTail Tail, class T, class Y>
void forward_all(const Shape& s, const at::Tensor& x, const at::Tensor& scale,
                 const at::Tensor& bias, double eps, const float* shortcut, const at::Tensor& y,
                 const at::Tensor& tables) {
  const T* in = x.const_data_ptr<T>();
  Y* out = y.data_ptr<Y>();
  const auto sum = [&](const ImagePart& part, double* sums) {
    const T* from = in + part.first * s.c;
    simd::dispatch([ =, c = s.c ]() __attribute__((always_inline)) {
      for_channels(
          c, [=]<int V>(int64_t k) __attribute__((always_inline)) {
            moments<V>(from + k, part.pixels, c, sums + k);
          });
    });
  };
  const auto finish = [&](int64_t image, const double* sums) {
    fill_tables(s, sums, scale.const_data_ptr<float>(), bias.const_data_ptr<float>(), eps,
                tables.data_ptr<float>() + image * kTables * s.c);
  };
  const auto apply = [&](const ImagePart& part) {
    const int64_t at = part.first * s.c;
    const Tables image(tables, part.image);
    const float* add = shortcut ? shortcut + at : nullptr;
    simd::dispatch([ =, c = s.c ]() __attribute__((always_inline)) {
      normalise<Tail>(in + at, add, out + at, part.pixels, c, image);
    });
  };
  sum_then_apply(s, sum, finish, apply);
}

struct Gradients {
  at::Tensor x, shortcut;  // (n, c, h, w); shortcut only for add_relu
  at::Tensor shares;       // (n, 2, c) float64: each image's gradient of bias and of scale
};

template <NormTail Tail, class T, class Y>
void backward_all(const Shape& s, const at::Tensor& x, const at::Tensor& y, const at::Tensor& grad,
                  const at::Tensor& scale, const at::Tensor& tables, const Gradients& gradients) {
  const T* in = x.const_data_ptr<T>();
  const Y* out = y.defined() ? y.const_data_ptr<Y>() : nullptr;
  const Y* g = grad.const_data_ptr<Y>();
  T* dx = gradients.x.data_ptr<T>();
  float* dshortcut = gradients.shortcut.defined() ? gradients.shortcut.data_ptr<float>() : nullptr;
  const at::Tensor corrections = at::empty({s.n, 2, s.c}, tables.options());
  const auto sum = [&](const ImagePart& part, double* sums) {
    const int64_t at = part.first * s.c;
    const Tables image(tables, part.image);
    const Y* after = out ? out + at : nullptr;
    simd::dispatch([ =, c = s.c ]() __attribute__((always_inline)) {
      for_channels(
          c, [=]<int V>(int64_t k) __attribute__((always_inline)) {
            gradient_sums<V, Tail>(in + at, after, g + at, part.pixels, c, k, image, sums);
          });
    });
  };
  const auto finish = [&](int64_t image, const double* sums) {
    fill_gradient_tables(s, sums, scale.const_data_ptr<float>(),
                         tables.const_data_ptr<float>() + image * kTables * s.c,
                         corrections.data_ptr<float>() + image * 2 * s.c,
                         gradients.shares.data_ptr<double>() + image * 2 * s.c);
  };
  const auto apply = [&](const ImagePart& part) {
    const int64_t at = part.first * s.c;
    const Tables image(tables, part.image);
    const float* slopes = corrections.const_data_ptr<float>() + part.image * 2 * s.c;
    const Y* after = out ? out + at : nullptr;
    float* dadd = dshortcut ? dshortcut + at : nullptr;
    simd::dispatch([ =, c = s.c ]() __attribute__((always_inline)) {
      gradient<Tail>(in + at, after, g + at, dx + at, dadd, part.pixels, c, image, slopes,
                     slopes + c);
    });
  };
  sum_then_apply(s, sum, finish, apply);
}

// Calls f<Tail, T, Y>() for the types of x and y.
template <class F>
void choose(NormTail tail, at::ScalarType x, at::ScalarType y, const F& f) {
  const auto with_tail = [&]<class T, class Y>() {
    if (tail == NormTail::nothing) return f.template operator()<NormTail::nothing, T, Y>();
    if (tail == NormTail::relu) return f.template operator()<NormTail::relu, T, Y>();
    return f.template operator()<NormTail::add_relu, T, Y>();
  };
  const auto with_input = [&]<class T>() {
    if (y == at::kFloat) return with_tail.template operator()<T, float>();
    return with_tail.template operator()<T, BFloat16>();
  };
  if (x == at::kFloat) return with_input.template operator()<float>();
  return with_input.template operator()<BFloat16>();
}

Shape shape_of(const at::Tensor& x, int64_t groups) {
  return {x.size(0), x.size(1), x.size(2) * x.size(3), groups};
}

class FusedGroupNorm : public torch::autograd::Function<FusedGroupNorm> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, int64_t groups,
                            const at::Tensor& scale, const at::Tensor& bias, double eps,
                            NormTail tail, at::ScalarType type,
                            const std::optional<at::Tensor>& shortcut) {
    const Shape s = shape_of(x, groups);
    const at::Tensor tables = at::empty({s.n, kTables, s.c}, scale.options());
    const at::Tensor y = at::empty(x.sizes(), x.options().dtype(type).memory_format(kChannelsLast));
    at::Tensor add;
    if (tail == NormTail::add_relu) add = shortcut->contiguous(kChannelsLast);
    const float* added = add.defined() ? add.const_data_ptr<float>() : nullptr;
    choose(tail, x.scalar_type(), type, [&]<NormTail Tail, class T, class Y>() {
      forward_all<Tail, T, Y>(s, x, scale, bias, eps, added, y, tables);
    });
    context->save_for_backward({x, scale, tables, tail == NormTail::add_relu ? y : at::Tensor()});
    context->saved_data["groups"] = groups;
    context->saved_data["tail"] = static_cast<int64_t>(tail);
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &scale = saved[1], &tables = saved[2], &y = saved[3];
    const auto tail = static_cast<NormTail>(context->saved_data["tail"].toInt());
    const Shape s = shape_of(x, context->saved_data["groups"].toInt());
    const at::Tensor grad = grads[0].contiguous(kChannelsLast);
    const auto options = x.options().memory_format(kChannelsLast);
    Gradients gradients;
    gradients.x = at::empty(x.sizes(), options);
    if (tail == NormTail::add_relu)
      gradients.shortcut = at::empty(x.sizes(), options.dtype(at::kFloat));
    gradients.shares = at::empty({s.n, 2, s.c}, scale.options().dtype(at::kDouble));
    choose(tail, x.scalar_type(), grad.scalar_type(), [&]<NormTail Tail, class T, class Y>() {
      backward_all<Tail, T, Y>(s, x, y, grad, scale, tables, gradients);
    });
    const at::Tensor sums = gradients.shares.sum(0).to(at::kFloat);  // (2, c)
    return {gradients.x, {}, sums[1], sums[0], {}, {}, {}, gradients.shortcut};
  }
};

}  // namespace

bool group_norm_fits(const at::Tensor& x) {
  const bool type = x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16;
  return x.is_cpu() && !plain_kernels() && type && x.dim() == 4 && x.numel() > 0 &&
         x.size(1) % kLanes == 0 && x.is_contiguous(kChannelsLast);
}

at::Tensor fused_group_norm(const at::Tensor& x, int64_t groups, const at::Tensor& scale,
                            const at::Tensor& bias, double eps, NormTail tail, at::ScalarType type,
                            const std::optional<at::Tensor>& shortcut) {
  const int64_t c = x.size(1);
  TORCH_CHECK(groups > 0 && c % groups == 0, c, " channels in ", groups, " groups");
  for (const at::Tensor& parameter : {scale, bias}) {
    TORCH_CHECK(parameter.numel() == c && parameter.is_contiguous(), "group norm of ", c,
                " channels with parameters of shape ", parameter.sizes());
  }
  TORCH_CHECK((tail == NormTail::add_relu) == shortcut.has_value(), "add_relu needs a shortcut");
  TORCH_CHECK(!shortcut || shortcut->sizes() == x.sizes(), "a shortcut of another shape");
  return FusedGroupNorm::apply(x, groups, scale, bias, eps, tail, type, shortcut);
}

}  // namespace bv
