#include "lib/model/kernels/relu_avg_pool.h"

#include <ATen/Parallel.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lib/device/cuda.h"
#include "lib/device/float_lanes.h"
#include "lib/device/operator_record.h"
#include "lib/device/plain_kernels.h"
#include "lib/model/kernels/channels_last.h"
#include "lib/model/kernels/device/aligned.h"
#include "lib/model/kernels/device/device_check.h"
#include "lib/model/kernels/device/numbers.h"
#include "lib/model/kernels/device/relu_avg_pool_pass.h"

namespace bv {
namespace {

using simd::kLanes;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Computes one row of outputs from two rows of inputs: w outputs of c channels. Bit p of `alive` is
// set if pixel p of the window was positive or NaN.
template <class Floats, class T>
[[gnu::always_inline]] inline void pool_row(const T* in, T* out, uint8_t* alive, int64_t in_stride,
                                            int64_t w, int64_t c) {
  for (int64_t x = 0; x < w; ++x, in += 2 * c, out += c, alive += c) {
    for (int64_t k = 0; k < c; k += kLanes) {
      const T* const pixels[4] = {in + k, in + c + k, in + in_stride + k, in + in_stride + c + k};
      Floats sum = {};
      simd::IntsOf<Floats> bits = {};
      for (int p = 0; p < 4; ++p) {
        Floats value;
        simd::load(pixels[p], value);
        simd::IntsOf<Floats> dead;
        simd::not_positive(value, dead);
        Floats kept;
        simd::keep(~dead, value, kept);
        sum += kept;
        bits |= ~dead & (1 << p);
      }
      simd::store(sum * 0.25f, out + k);
      simd::store(bits, alive + k);
    }
  }
}

template <class Floats, class T>
[[gnu::always_inline]] inline void unpool_row(const T* grad, const uint8_t* alive, T* out,
                                              int64_t out_stride, int64_t w, int64_t c) {
  for (int64_t x = 0; x < w; ++x, grad += c, alive += c, out += 2 * c) {
    for (int64_t k = 0; k < c; k += kLanes) {
      T* const pixels[4] = {out + k, out + c + k, out + out_stride + k, out + out_stride + c + k};
      Floats value;
      simd::IntsOf<Floats> bits;
      simd::load(grad + k, value);
      simd::load(alive + k, bits);
      value *= 0.25f;
      for (int p = 0; p < 4; ++p) {
        Floats kept;
        simd::keep(-((bits >> p) & 1), value, kept);
        simd::store(kept, pixels[p]);
      }
    }
  }
}

using c10::BFloat16;

template <class T>
void relu_avg_pool_forward_all(const at::Tensor& x, const at::Tensor& y, const at::Tensor& alive) {
  const int64_t n = x.size(0), c = x.size(1), h = x.size(2), w = x.size(3);
  const int64_t oh = h / 2, ow = w / 2;
  const T* in = x.const_data_ptr<T>();
  T* out = y.data_ptr<T>();
  uint8_t* bits = alive.data_ptr<uint8_t>();
  at::parallel_for(0, n * oh, 16, [&](int64_t begin, int64_t end) {
    simd::dispatch([=](auto registers) __attribute__((always_inline)) {
      using Floats = typename decltype(registers)::Floats;
      for (int64_t row = begin; row < end; ++row) {
        const int64_t from = ((row / oh) * h + 2 * (row % oh)) * w * c;
        pool_row<Floats>(in + from, out + row * ow * c, bits + row * ow * c, w * c, ow, c);
      }
    });
  });
}

template <class T>
void relu_avg_pool_backward_all(const at::Tensor& grad, const at::Tensor& alive,
                                const at::Tensor& dx) {
  const int64_t n = dx.size(0), c = dx.size(1), h = dx.size(2), w = dx.size(3);
  const int64_t oh = h / 2, ow = w / 2;
  const T* in = grad.const_data_ptr<T>();
  const uint8_t* bits = alive.const_data_ptr<uint8_t>();
  T* out = dx.data_ptr<T>();
  at::parallel_for(0, n * oh, 16, [&](int64_t begin, int64_t end) {
    simd::dispatch([=](auto registers) __attribute__((always_inline)) {
      using Floats = typename decltype(registers)::Floats;
      for (int64_t row = begin; row < end; ++row) {
        const int64_t to = ((row / oh) * h + 2 * (row % oh)) * w * c;
        unpool_row<Floats>(in + row * ow * c, bits + row * ow * c, out + to, w * c, ow, c);
      }
    });
  });
}

// Returns the pass over CUDA tensors: `wide` (n, c, h, w) before the pool, `pooled` and `alive`
// after it.
ReluAvgPoolPass pass_of(const at::Tensor& wide, const at::Tensor& pooled, const at::Tensor& alive) {
  return {.n = wide.size(0),
          .h = wide.size(2),
          .w = wide.size(3),
          .c = wide.size(1),
          .wide = numbers(wide),
          .pooled = numbers(pooled),
          .alive = alive.data_ptr<uint8_t>()};
}

class ReluAvgPool : public torch::autograd::Function<ReluAvgPool> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& given) {
    const at::Tensor x = aligned(given);
    const std::vector<int64_t> sizes = {x.size(0), x.size(1), x.size(2) / 2, x.size(3) / 2};
    const at::Tensor y = at::empty(sizes, x.options().memory_format(kChannelsLast));
    const at::Tensor alive =
        at::empty(sizes, x.options().dtype(at::kByte).memory_format(kChannelsLast));
    if (x.is_cuda()) {
      static auto* const run = cuda_function<RunReluAvgPool>("bvtrain_cuda_relu_avg_pool");
      run(pass_of(x, y, alive), cuda_stream(x.device()));
      note_kernel("bvtrain::relu_avg_pool", {x, y, alive});
    } else if (x.scalar_type() == at::kFloat) {
      relu_avg_pool_forward_all<float>(x, y, alive);
    } else {
      relu_avg_pool_forward_all<BFloat16>(x, y, alive);
    }
    context->save_for_backward({alive});
    context->saved_data["sizes"] = x.sizes().vec();
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const at::Tensor alive = context->get_saved_variables()[0];
    const std::vector<int64_t> sizes = context->saved_data["sizes"].toIntVector();
    const at::Tensor grad = aligned(grads[0].contiguous(kChannelsLast));
    const auto options = grad.options().memory_format(kChannelsLast);
    // If a side is odd, the pool ignores the last row or column, whose gradient is zero.
    const bool covers = sizes[2] % 2 == 0 && sizes[3] % 2 == 0;
    at::Tensor dx = covers ? at::empty(sizes, options) : at::empty(sizes, options).zero_();
    if (grad.is_cuda()) {
      static auto* const run = cuda_function<RunReluAvgPool>("bvtrain_cuda_relu_avg_pool_gradient");
      run(pass_of(dx, grad, alive), cuda_stream(grad.device()));
      note_kernel("bvtrain::relu_avg_pool_gradient", {dx, grad, alive});
    } else if (grad.scalar_type() == at::kFloat) {
      relu_avg_pool_backward_all<float>(grad, alive, dx);
    } else {
      relu_avg_pool_backward_all<BFloat16>(grad, alive, dx);
    }
    return {dx};
  }
};

at::Tensor plain_relu_avg_pool(const at::Tensor& x) { return at::avg_pool2d(at::relu(x), 2); }

KernelCheck pool_check(c10::Device device) {
  const at::Tensor images = check_numbers({2, 4, 7, 16}, 1, device, at::kBFloat16);
  return {
      .inputs = {images.permute({0, 3, 1, 2})},
      .fused = [](const variable_list& all) -> variable_list { return {relu_avg_pool(all[0])}; },
      .plain = [](const variable_list& all) -> variable_list {
        return {plain_relu_avg_pool(all[0])};
      }};
}

}  // namespace

at::Tensor relu_avg_pool(const at::Tensor& x) {
  const bool type = x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16;
  const bool fits = (x.is_cpu() || x.is_cuda()) && !plain_kernels() && type &&
                    x.size(1) % kLanes == 0 && x.is_contiguous(kChannelsLast);
  if (fits && (x.is_cpu() || fused_kernel_is_right("pools", x.device(), pool_check)))
    return ReluAvgPool::apply(x);
  return plain_relu_avg_pool(x);
}

}  // namespace bv
