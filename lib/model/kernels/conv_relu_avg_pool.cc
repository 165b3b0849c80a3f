#include "lib/model/kernels/conv_relu_avg_pool.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <vector>

#include "lib/device/float_lanes.h"
#include "lib/device/plain_kernels.h"
#include "lib/model/kernels/channels_last.h"

namespace bv {
namespace {

using c10::BFloat16;
using simd::kLanes;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kImagesPerChunk = 4;  // images per partial sum of the weight gradient

struct Extent {
  int64_t h, w;  // of an input image
  int64_t out;   // output channels
  int64_t pooled() const { return (h / 2) * (w / 2) * out; }
};

// Copies an image (h, w, C) and adds a border of zeros, so that the inputs of a 3x3 window are
// three runs of 3 * C floats.
template <int C>
void pad(const float* image, float* padded, const Extent& e) {
  const int64_t row = (e.w + 2) * C;
  std::fill(padded, padded + row, 0.0f);
  std::fill(padded + (e.h + 1) * row, padded + (e.h + 2) * row, 0.0f);
  for (int64_t y = 0; y < e.h; ++y) {
    float* to = padded + (y + 1) * row;
    std::fill(to, to + C, 0.0f);
    std::copy(image + y * e.w * C, image + (y + 1) * e.w * C, to + C);
    std::fill(to + C + e.w * C, to + row, 0.0f);
  }
}

// kernel: (9 * C, out), bias: (out). Computes for each output the mean of the positive parts of
// four convolutions, and one bit for each of the four that was positive.
template <class Floats, int C, class T>
[[gnu::always_inline]] inline void forward_image(const float* padded, const float* kernel,
                                                 const float* bias, T* y, uint8_t* alive,
                                                 const Extent& e) {
  const int64_t row = (e.w + 2) * C;
  for (int64_t py = 0; py < e.h / 2; ++py) {
    for (int64_t px = 0; px < e.w / 2; ++px, y += e.out, alive += e.out) {
      const float* corner = padded + 2 * py * row + 2 * px * C;
      for (int64_t k = 0; k < e.out; k += kLanes) {
        Floats start;
        simd::load(bias + k, start);
        Floats sums[4] = {start, start, start, start};
#pragma GCC unroll 3
        for (int ky = 0; ky < 3; ++ky) {
#pragma GCC unroll 9
          for (int j = 0; j < 3 * C; ++j) {
            Floats weight;
            simd::load(kernel + (ky * 3 * C + j) * e.out + k, weight);
            const float* tap = corner + ky * row + j;
            sums[0] += weight * tap[0];
            sums[1] += weight * tap[C];
            sums[2] += weight * tap[row];
            sums[3] += weight * tap[row + C];
          }
        }
        Floats total = {};
        simd::IntsOf<Floats> bits = {};
#pragma GCC unroll 4
        for (int p = 0; p < 4; ++p) {
          simd::IntsOf<Floats> dead;
          simd::not_positive(sums[p], dead);
          Floats kept;
          simd::keep(~dead, sums[p], kept);
          total += kept;
          bits |= ~dead & (1 << p);
        }
        simd::store(total * 0.25f, y + k);
        simd::store(bits, alive + k);
      }
    }
  }
}

// Adds the gradients of one image to dkernel (9 * C, out) and dbias (out). The sums of kRows kernel
// rows stay in registers during a loop over the image.
template <class Floats, int C, class T>
[[gnu::always_inline]] inline void backward_image(const float* padded, const T* grad,
                                                  const uint8_t* alive, float* dkernel,
                                                  float* dbias, const Extent& e) {
  constexpr int kRows = C == 1 ? 3 : 1;  // kernel rows at a time
  constexpr int kTaps = 3 * C;
  const int64_t row = (e.w + 2) * C, ph = e.h / 2, pw = e.w / 2;
  for (int64_t k = 0; k < e.out; k += kLanes) {
    for (int first = 0; first < 3; first += kRows) {
      Floats sums[kRows * kTaps] = {};
      Floats total = {};
      for (int64_t pixel = 0; pixel < ph * pw; ++pixel) {
        const float* corner = padded + 2 * (pixel / pw) * row + 2 * (pixel % pw) * C;
        Floats value;
        simd::IntsOf<Floats> bits;
        simd::load(grad + pixel * e.out + k, value);
        simd::load(alive + pixel * e.out + k, bits);
        value *= 0.25f;
#pragma GCC unroll 4
        for (int p = 0; p < 4; ++p) {
          Floats part;
          simd::keep(-((bits >> p) & 1), value, part);
          const float* tap = corner + (p / 2 + first) * row + (p % 2) * C;
          total += part;
#pragma GCC unroll 3
          for (int ky = 0; ky < kRows; ++ky) {
#pragma GCC unroll 9
            for (int j = 0; j < kTaps; ++j) sums[ky * kTaps + j] += part * tap[ky * row + j];
          }
        }
      }
      for (int i = 0; i < kRows * kTaps; ++i) {
        float* to = dkernel + (first * kTaps + i) * e.out + k;
        Floats old;
        simd::load(to, old);
        simd::store(old + sums[i], to);
      }
      if (first == 0) {
        Floats old;
        simd::load(dbias + k, old);
        simd::store(old + total, dbias + k);
      }
    }
  }
}

template <int C, class T>
void conv_relu_avg_pool_forward_all(const at::Tensor& x, const at::Tensor& kernel,
                                    const at::Tensor& bias, const at::Tensor& y,
                                    const at::Tensor& alive) {
  const Extent e = {x.size(2), x.size(3), y.size(1)};
  const float* in = x.const_data_ptr<float>();
  const float* weights = kernel.const_data_ptr<float>();
  const float* biases = bias.const_data_ptr<float>();
  T* out = y.data_ptr<T>();
  uint8_t* bits = alive.data_ptr<uint8_t>();
  at::parallel_for(0, x.size(0), 1, [&](int64_t begin, int64_t end) {
    std::vector<float> padded((e.h + 2) * (e.w + 2) * C);
    for (int64_t i = begin; i < end; ++i) {
      pad<C>(in + i * e.h * e.w * C, padded.data(), e);
      simd::dispatch([&](auto registers) __attribute__((always_inline)) {
        using Floats = typename decltype(registers)::Floats;
        forward_image<Floats, C>(padded.data(), weights, biases, out + i * e.pooled(),
                                 bits + i * e.pooled(), e);
      });
    }
  });
}

// Each partial sum covers a fixed number of images, so the result does not depend on the number of
// threads.
template <int C, class T>
at::Tensor conv_relu_avg_pool_backward_all(const at::Tensor& x, const at::Tensor& grad,
                                           const at::Tensor& alive) {
  const Extent e = {x.size(2), x.size(3), grad.size(1)};
  const int64_t n = x.size(0), chunks = (n + kImagesPerChunk - 1) / kImagesPerChunk;
  const at::Tensor sums = at::zeros({chunks, 9 * C + 1, e.out}, at::kFloat);
  const float* in = x.const_data_ptr<float>();
  const T* grads = grad.const_data_ptr<T>();
  const uint8_t* bits = alive.const_data_ptr<uint8_t>();
  float* all = sums.data_ptr<float>();
  at::parallel_for(0, chunks, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> padded((e.h + 2) * (e.w + 2) * C);
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      float* dkernel = all + chunk * (9 * C + 1) * e.out;
      float* dbias = dkernel + 9 * C * e.out;
      const int64_t last = std::min(n, (chunk + 1) * kImagesPerChunk);
      for (int64_t i = chunk * kImagesPerChunk; i < last; ++i) {
        pad<C>(in + i * e.h * e.w * C, padded.data(), e);
        simd::dispatch([&](auto registers) __attribute__((always_inline)) {
          using Floats = typename decltype(registers)::Floats;
          backward_image<Floats, C>(padded.data(), grads + i * e.pooled(), bits + i * e.pooled(),
                                    dkernel, dbias, e);
        });
      }
    }
  });
  return sums.sum(0);  // (9 * C + 1, out)
}

class ConvReluAvgPool : public torch::autograd::Function<ConvReluAvgPool> {
 public:
  // x: (n, c, h, w) channels_last float32, already rounded to `type`.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& kernel,
                            const at::Tensor& bias, at::ScalarType type) {
    const int64_t out = kernel.size(3);
    const std::vector<int64_t> sizes = {x.size(0), out, x.size(2) / 2, x.size(3) / 2};
    const auto options = x.options().memory_format(kChannelsLast);
    const at::Tensor y = at::empty(sizes, options.dtype(type));
    const at::Tensor alive = at::empty(sizes, options.dtype(at::kByte));
    const at::Tensor taps = kernel.to(type).to(at::kFloat).contiguous();
    const bool one = x.size(1) == 1;
    if (type == at::kFloat) {
      (one ? conv_relu_avg_pool_forward_all<1, float>
           : conv_relu_avg_pool_forward_all<3, float>)(x, taps, bias, y, alive);
    } else {
      (one ? conv_relu_avg_pool_forward_all<1, BFloat16>
           : conv_relu_avg_pool_forward_all<3, BFloat16>)(x, taps, bias, y, alive);
    }
    context->save_for_backward({x, alive});
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &alive = saved[1];
    const at::Tensor grad = grads[0].contiguous(kChannelsLast);
    const int64_t c = x.size(1), out = grad.size(1);
    const bool one = c == 1;
    const at::Tensor sums =
        grad.scalar_type() == at::kFloat
            ? (one ? conv_relu_avg_pool_backward_all<1, float>
                   : conv_relu_avg_pool_backward_all<3, float>)(x, grad, alive)
            : (one ? conv_relu_avg_pool_backward_all<1, BFloat16>
                   : conv_relu_avg_pool_backward_all<3, BFloat16>)(x, grad, alive);
    return {at::Tensor(), sums.narrow(0, 0, 9 * c).view({3, 3, c, out}), sums.select(0, 9 * c),
            at::Tensor()};
  }
};

}  // namespace

bool conv_relu_avg_pool_fits(const at::Tensor& x, const at::Tensor& kernel) {
  const bool square = kernel.size(0) == 3 && kernel.size(1) == 3;
  return x.is_cpu() && !plain_kernels() && !x.requires_grad() && square &&
         (x.size(1) == 1 || x.size(1) == 3) && kernel.size(3) % kLanes == 0;
}

at::Tensor conv_relu_avg_pool(const at::Tensor& x, const at::Tensor& kernel, const at::Tensor& bias,
                              at::ScalarType type) {
  const at::Tensor rounded = x.to(type).to(at::kFloat).contiguous(kChannelsLast);
  return ConvReluAvgPool::apply(rounded, kernel, bias, type);
}

}  // namespace bv
