#include "lib/model/kernels/gelu.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <torch/csrc/autograd/custom_function.h>

#include <bit>

#include "lib/device/cpu_dispatch.h"
#include "lib/device/plain_kernels.h"
#include "lib/model/kernels/exp_series.h"

namespace bv {
namespace {

using c10::BFloat16;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kGrain = 1 << 14;         // elements; less is not worth a thread
constexpr float kTwoRoots = 1.5957691216f;  // 2 sqrt(2 / pi)
constexpr float kCubic = 0.044715f;

[[gnu::always_inline]] inline float value_of(float x) { return x; }
[[gnu::always_inline]] inline float value_of(BFloat16 x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x.x) << 16);
}

[[gnu::always_inline]] inline void store(float x, float* to) { *to = x; }
constexpr uint32_t kInfinity = 0x7f800000u;  // larger magnitudes are NaNs
[[gnu::always_inline]] inline uint32_t magnitude(uint32_t bits) { return bits & 0x7fffffffu; }
// Returns all ones if a > b, else 0; a, b < 2^31.
[[gnu::always_inline]] inline uint32_t above(uint32_t a, uint32_t b) {
  return 0u - ((b - a) >> 31);
}

// Rounds to nearest, ties to even. A NaN stays a NaN.
[[gnu::always_inline]] inline void store(float x, BFloat16* to) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t nan = above(magnitude(bits), kInfinity);
  to->x = static_cast<uint16_t>((rounded & ~nan) | (0x7fc0u & nan));
}

// exp(x) for |x| <= 87, to about one unit in the last place. A NaN stays a NaN.
[[gnu::always_inline]] inline float exponential(float x) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: what is added to it is rounded to integers
  const float shifted = x * 1.44269504f + kRound;
  const float n = shifted - kRound;
  float y;
  exp_of_rest(x, n, y);
  const uint32_t exponent = (std::bit_cast<uint32_t>(shifted) - 0x4B400000u + 127u) << 23;
  return y * std::bit_cast<float>(exponent);
}

// 0.5 (1 + tanh(u)) = 1 / (1 + exp(-2 u)), without the difference of two numbers near 1. Numbers
// are compared by their bits, because GCC does not vectorise a loop with branches or with
// comparisons that may trap.
[[gnu::always_inline]] inline float gate(float x) {
  constexpr auto kLargest = std::bit_cast<uint32_t>(87.0f);
  const auto t = std::bit_cast<uint32_t>(x * (x * x * kCubic + 1.0f) * -kTwoRoots);
  const uint32_t size = magnitude(t), sign = t ^ size;
  const uint32_t over = above(size, kLargest) & ~above(size, kInfinity);
  const auto within = std::bit_cast<float>((t & ~over) | ((kLargest | sign) & over));
  const float y = 1.0f / (exponential(within) + 1.0f);
  const uint32_t vanishes = over & ~(0u - (sign >> 31));
  return std::bit_cast<float>(std::bit_cast<uint32_t>(y) & ~vanishes);
}

template <class T>
void forward_all(const T* x, T* y, int64_t n) {
  at::parallel_for(0, n, kGrain, [=](int64_t begin, int64_t end) {
    run_simd([=]() __attribute__((always_inline)) {
      for (int64_t i = begin; i < end; ++i) {
        const float value = value_of(x[i]);
        store(value * gate(value), y + i);
      }
    });
  });
}

template <class T>
void backward_all(const T* x, const T* grad, T* dx, int64_t n) {
  at::parallel_for(0, n, kGrain, [=](int64_t begin, int64_t end) {
    run_simd([=]() __attribute__((always_inline)) {
      for (int64_t i = begin; i < end; ++i) {
        const float value = value_of(x[i]), g = gate(value);
        const float slope = (value * value * (3 * kCubic) + 1.0f) * kTwoRoots;  // of 2 u
        store(value_of(grad[i]) * (g + value * slope * g * (1.0f - g)), dx + i);
      }
    });
  });
}

class Gelu : public torch::autograd::Function<Gelu> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x) {
    const at::Tensor y = at::empty_like(x);
    if (x.scalar_type() == at::kFloat)
      forward_all(x.const_data_ptr<float>(), y.data_ptr<float>(), x.numel());
    else
      forward_all(x.const_data_ptr<BFloat16>(), y.data_ptr<BFloat16>(), x.numel());
    context->save_for_backward({x});
    return y;
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const at::Tensor x = context->get_saved_variables()[0], dx = at::empty_like(x);
    const at::Tensor grad = grads[0].to(x.scalar_type()).contiguous();
    if (x.scalar_type() == at::kFloat)
      backward_all(x.const_data_ptr<float>(), grad.const_data_ptr<float>(), dx.data_ptr<float>(),
                   x.numel());
    else
      backward_all(x.const_data_ptr<BFloat16>(), grad.const_data_ptr<BFloat16>(),
                   dx.data_ptr<BFloat16>(), x.numel());
    return {dx};
  }
};

}  // namespace

at::Tensor tanh_gelu(const at::Tensor& x) {
  const bool type = x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16;
  if (x.is_cpu() && !plain_kernels() && type && x.is_contiguous()) return Gelu::apply(x);
  return at::gelu(x, "tanh");
}

}  // namespace bv
