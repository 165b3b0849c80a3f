// Group normalization of channels_last activations, fused with the following ReLU and residual sum.
// Forward and backward each make two passes over an image. With enough images, each thread takes
// whole images: the second pass then reads an image from the cache, if it fits.
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
#include "lib/model/kernels/channels_last.h"
#include "lib/model/kernels/device/group_norm_cuda.h"
#include "lib/model/kernels/group_norm_parts.h"

namespace bv {
namespace {

using c10::BFloat16;
using group_norm_parts::kGain;
using group_norm_parts::kMean;
using group_norm_parts::kRstd;
using group_norm_parts::kShift;
using group_norm_parts::kTables;
using group_norm_parts::Tables;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Elements per float32 partial sum: few enough for its precision and for the cache.
constexpr int64_t kGroupNormChunk = 32768;

struct Shape {
  int64_t n, c, pixels, groups;
  int64_t group_size() const { return c / groups; }
  int64_t chunk_pixels() const { return std::max<int64_t>(1, kGroupNormChunk / c); }
  int64_t chunks() const { return (pixels + chunk_pixels() - 1) / chunk_pixels(); }
};

// Some pixels of one image.
struct ImagePart {
  int64_t image, first, pixels;  // first: an index into the pixels of all images
};

// Runs three functions on each image. sum(part, sums) writes 2 * c sums of one chunk. Then
// finish(image, sums) gets the sums of all chunks. Then apply(part) runs on each chunk. The chunks
// are always added in the same order.
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

// Turns an image's sums from moments() into its tables.
void fill_tables(const Shape& s, const double* sums, const float* scale, const float* bias,
                 double eps, float* tables) {
  const auto count = static_cast<double>(s.pixels * s.group_size());
  for (int64_t g = 0; g < s.groups; ++g) {
    const int64_t first = g * s.group_size(), last = first + s.group_size();
    const double mean = std::accumulate(sums + first, sums + last, 0.0) / count;
    const double square = std::accumulate(sums + s.c + first, sums + s.c + last, 0.0) / count;
    // This order of arguments preserves NaN: std::max(0.0, NaN) is 0.
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

// Computes from an image's gradient_sums(): `corrections` (2, c), its slopes and offsets; and
// `shares` (2, c), its part of the gradients of bias and scale.
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
void group_norm_forward_all(const Shape& s, const at::Tensor& x, const at::Tensor& scale,
                            const at::Tensor& bias, double eps, const float* shortcut,
                            const at::Tensor& y, const at::Tensor& tables) {
  const int64_t c = s.c;
  const T* in = x.const_data_ptr<T>();
  Y* out = y.data_ptr<Y>();
  const auto sum = [&](const ImagePart& part, double* sums) {
    const T* from = in + part.first * c;
    simd::dispatch([=](auto registers) __attribute__((always_inline)) {
      using Floats = typename decltype(registers)::Floats;
      simd::moments<Floats>(from, part.pixels, c, sums);
    });
  };
  const auto finish = [&](int64_t image, const double* sums) {
    fill_tables(s, sums, scale.const_data_ptr<float>(), bias.const_data_ptr<float>(), eps,
                tables.data_ptr<float>() + image * kTables * c);
  };
  const auto apply = [&](const ImagePart& part) {
    const int64_t at = part.first * c;
    const Tables image(tables, part.image);
    const float* add = shortcut ? shortcut + at : nullptr;
    simd::dispatch([=](auto registers) __attribute__((always_inline)) {
      using Floats = typename decltype(registers)::Floats;
      group_norm_parts::normalise<Floats, Tail>(in + at, add, out + at, part.pixels, c, image);
    });
  };
  sum_then_apply(s, sum, finish, apply);
}

struct Gradients {
  at::Tensor x, shortcut;  // (n, c, h, w); shortcut only for add_relu
  at::Tensor shares;       // (n, 2, c) float64: each image's gradient of bias and of scale
};

template <NormTail Tail, class T, class Y>
void group_norm_backward_all(const Shape& s, const at::Tensor& x, const at::Tensor& y,
                             const at::Tensor& grad, const at::Tensor& scale,
                             const at::Tensor& tables, const Gradients& gradients) {
  const int64_t c = s.c;
  const T* in = x.const_data_ptr<T>();
  const Y* out = y.defined() ? y.const_data_ptr<Y>() : nullptr;
  const Y* g = grad.const_data_ptr<Y>();
  T* dx = gradients.x.data_ptr<T>();
  float* dshortcut = gradients.shortcut.defined() ? gradients.shortcut.data_ptr<float>() : nullptr;
  const at::Tensor corrections = at::empty({s.n, 2, c}, tables.options());
  const auto sum = [&](const ImagePart& part, double* sums) {
    const int64_t at = part.first * c;
    const Tables image(tables, part.image);
    const Y* after = out ? out + at : nullptr;
    simd::dispatch([=](auto registers) __attribute__((always_inline)) {
      using Floats = typename decltype(registers)::Floats;
      group_norm_parts::gradient_sums<Floats, Tail>(in + at, after, g + at, part.pixels, c, image,
                                                    sums);
    });
  };
  const auto finish = [&](int64_t image, const double* sums) {
    fill_gradient_tables(s, sums, scale.const_data_ptr<float>(),
                         tables.const_data_ptr<float>() + image * kTables * c,
                         corrections.data_ptr<float>() + image * 2 * c,
                         gradients.shares.data_ptr<double>() + image * 2 * c);
  };
  const auto apply = [&](const ImagePart& part) {
    const int64_t at = part.first * c;
    const Tables image(tables, part.image);
    const float* slopes = corrections.const_data_ptr<float>() + part.image * 2 * c;
    const Y* after = out ? out + at : nullptr;
    float* dadd = dshortcut ? dshortcut + at : nullptr;
    simd::dispatch([=](auto registers) __attribute__((always_inline)) {
      using Floats = typename decltype(registers)::Floats;
      group_norm_parts::gradient<Floats, Tail>(in + at, after, g + at, dx + at, dadd, part.pixels,
                                               c, image, slopes, slopes + c);
    });
  };
  sum_then_apply(s, sum, finish, apply);
}

// Calls f<Tail, T, Y>() for the types of x and y.
template <class F>
void dispatch_group_norm(NormTail tail, at::ScalarType x, at::ScalarType y, const F& f) {
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

Shape group_norm_shape(const at::Tensor& x, int64_t groups) {
  return {x.size(0), x.size(1), x.size(2) * x.size(3), groups};
}

class FusedGroupNorm : public torch::autograd::Function<FusedGroupNorm> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, int64_t groups,
                            const at::Tensor& scale, const at::Tensor& bias, double eps,
                            NormTail tail, at::ScalarType type,
                            const std::optional<at::Tensor>& shortcut) {
    const Shape s = group_norm_shape(x, groups);
    const at::Tensor tables = at::empty({s.n, kTables, s.c}, scale.options());
    const at::Tensor y = at::empty(x.sizes(), x.options().dtype(type).memory_format(kChannelsLast));
    at::Tensor add;
    if (tail == NormTail::add_relu) add = shortcut->contiguous(kChannelsLast);
    const float* added = add.defined() ? add.const_data_ptr<float>() : nullptr;
    dispatch_group_norm(tail, x.scalar_type(), type, [&]<NormTail Tail, class T, class Y>() {
      group_norm_forward_all<Tail, T, Y>(s, x, scale, bias, eps, added, y, tables);
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
    const Shape s = group_norm_shape(x, context->saved_data["groups"].toInt());
    const at::Tensor grad = grads[0].contiguous(kChannelsLast);
    const auto options = x.options().memory_format(kChannelsLast);
    Gradients gradients;
    gradients.x = at::empty(x.sizes(), options);
    if (tail == NormTail::add_relu)
      gradients.shortcut = at::empty(x.sizes(), options.dtype(at::kFloat));
    gradients.shares = at::empty({s.n, 2, s.c}, scale.options().dtype(at::kDouble));
    dispatch_group_norm(
        tail, x.scalar_type(), grad.scalar_type(), [&]<NormTail Tail, class T, class Y>() {
          group_norm_backward_all<Tail, T, Y>(s, x, y, grad, scale, tables, gradients);
        });
    const at::Tensor sums = gradients.shares.sum(0).to(at::kFloat);  // (2, c)
    return {gradients.x, {}, sums[1], sums[0], {}, {}, {}, gradients.shortcut};
  }
};

void check_shapes(const at::Tensor& x, int64_t groups, const at::Tensor& scale,
                  const at::Tensor& bias, NormTail tail,
                  const std::optional<at::Tensor>& shortcut) {
  const int64_t c = x.size(1);
  TORCH_CHECK(groups > 0 && c % groups == 0, c, " channels in ", groups, " groups");
  for (const at::Tensor& parameter : {scale, bias}) {
    TORCH_CHECK(parameter.numel() == c && parameter.is_contiguous(), "group norm of ", c,
                " channels with parameters of shape ", parameter.sizes());
  }
  TORCH_CHECK((tail == NormTail::add_relu) == shortcut.has_value(), "add_relu needs a shortcut");
  TORCH_CHECK(!shortcut || shortcut->sizes() == x.sizes(), "a shortcut of another shape");
}

}  // namespace

bool group_norm_fits(const at::Tensor& x) {
  const bool type = x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16;
  const bool fits = (x.is_cpu() || x.is_cuda()) && !plain_kernels() && type && x.dim() == 4 &&
                    x.numel() > 0 && x.size(1) % simd::kLanes == 0 &&
                    x.is_contiguous(kChannelsLast);
  return fits && (x.is_cpu() || cuda_group_norm_is_right(x.device()));
}

at::Tensor fused_group_norm(const at::Tensor& x, int64_t groups, const at::Tensor& scale,
                            const at::Tensor& bias, double eps, NormTail tail, at::ScalarType type,
                            const std::optional<at::Tensor>& shortcut) {
  check_shapes(x, groups, scale, bias, tail, shortcut);
  if (x.is_cuda())
    return cuda_group_norm(x, groups, scale, bias, eps, tail, type, shortcut, at::kFloat).first;
  return FusedGroupNorm::apply(x, groups, scale, bias, eps, tail, type, shortcut);
}

std::pair<at::Tensor, at::Tensor> fused_group_norm_add_relu(const at::Tensor& x, int64_t groups,
                                                            const at::Tensor& scale,
                                                            const at::Tensor& bias, double eps,
                                                            const at::Tensor& shortcut,
                                                            at::ScalarType type) {
  constexpr auto kTail = NormTail::add_relu;
  check_shapes(x, groups, scale, bias, kTail, shortcut);
  if (x.is_cuda())
    return cuda_group_norm(x, groups, scale, bias, eps, kTail, at::kFloat, shortcut, type);
  const at::Tensor y =
      FusedGroupNorm::apply(x, groups, scale, bias, eps, kTail, at::kFloat, shortcut);
  return {y, y.to(type)};
}

}  // namespace bv
