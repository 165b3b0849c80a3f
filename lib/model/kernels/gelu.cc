#include "lib/model/kernels/gelu.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "lib/device/plain_kernels.h"
#include "lib/model/kernels/gelu_parts.h"

namespace bv {
namespace {

using c10::BFloat16;
using simd::kLanes;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kGeluGrain = 1 << 14;  // elements; fewer are not worth a thread

// Calls f(registers, i, count) for the elements from i to i + count - 1, within simd::dispatch().
// count is sixteen, or less in a thread's last call. f also computes the last ones as a vector,
// so an element's result does not depend on its place.
template <class F>
void for_vectors(int64_t n, const F& f) {
  at::parallel_for(0, n, kGeluGrain, [=](int64_t begin, int64_t end) {
    simd::dispatch([=](auto registers) __attribute__((always_inline)) {
      for (int64_t i = begin; i < end; i += kLanes) f(registers, i, std::min(kLanes, end - i));
    });
  });
}

template <class T>
void gelu_forward_all(const T* x, T* y, int64_t n) {
  for_vectors(
      n, [=](auto registers, int64_t i, int64_t count) __attribute__((always_inline)) {
        typename decltype(registers)::Floats value, g;
        simd::load_some(x + i, count, value);
        simd::gelu_gate(value, g);
        simd::store_some(value * g, count, y + i);
      });
}

template <class T>
void gelu_backward_all(const T* x, const T* grad, T* dx, int64_t n) {
  for_vectors(
      n, [=](auto registers, int64_t i, int64_t count) __attribute__((always_inline)) {
        typename decltype(registers)::Floats value, above, g, slope;
        simd::load_some(x + i, count, value);
        simd::load_some(grad + i, count, above);
        simd::gelu_gate(value, g);
        simd::gelu_slope(value, g, slope);
        simd::store_some(above * slope, count, dx + i);
      });
}

class Gelu : public torch::autograd::Function<Gelu> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x) {
    const at::Tensor y = at::empty_like(x);
    if (x.scalar_type() == at::kFloat)
      gelu_forward_all(x.const_data_ptr<float>(), y.data_ptr<float>(), x.numel());
    else
      gelu_forward_all(x.const_data_ptr<BFloat16>(), y.data_ptr<BFloat16>(), x.numel());
    context->save_for_backward({x});
    return y;
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const at::Tensor x = context->get_saved_variables()[0], dx = at::empty_like(x);
    const at::Tensor grad = grads[0].to(x.scalar_type()).contiguous();
    if (x.scalar_type() == at::kFloat)
      gelu_backward_all(x.const_data_ptr<float>(), grad.const_data_ptr<float>(),
                        dx.data_ptr<float>(), x.numel());
    else
      gelu_backward_all(x.const_data_ptr<BFloat16>(), grad.const_data_ptr<BFloat16>(),
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
