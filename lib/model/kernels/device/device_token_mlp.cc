#include "lib/model/kernels/device/device_token_mlp.h"

#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lib/device/cuda.h"
#include "lib/device/operator_record.h"
#include "lib/device/plain_kernels.h"
#include "lib/model/kernels/device/aligned.h"
#include "lib/model/kernels/device/device_check.h"
#include "lib/model/kernels/device/row_gelu_pass.h"

namespace bv {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kAligned = 8;  // bfloat16 numbers in 16 bytes

Bf16* bf16_numbers(const at::Tensor& tensor) { return static_cast<Bf16*>(tensor.data_ptr()); }

// Returns the (out, in) weight of a kernel (in, out) in bfloat16; its rows are aligned to 16 bytes.
at::Tensor aligned_weight(const at::Tensor& kernel) {
  const int64_t in = kernel.size(0), out = kernel.size(1);
  const int64_t stride = (in + kAligned - 1) / kAligned * kAligned;
  const at::Tensor padded = at::zeros({out, stride}, kernel.options().dtype(at::kBFloat16));
  const at::Tensor weight = padded.narrow(1, 0, in);
  weight.copy_(kernel.t());
  return weight;
}

// Returns the product of `matrix` and each of the matrices x (n, rows, D).
at::Tensor left_product(const at::Tensor& matrix, const at::Tensor& x) {
  return at::bmm(matrix.expand({x.size(0), -1, -1}), x);
}

// Returns the sum over n of left right^T; left (n, a, D), right (n, b, D). (a, b) float32.
at::Tensor summed_product(const at::Tensor& left, const at::Tensor& right) {
  return at::bmm(left, right.transpose(1, 2))
      .sum(at::IntArrayRef{0}, /*keepdim=*/false, at::kFloat);
}

class DeviceTokenMlp : public torch::autograd::Function<DeviceTokenMlp> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& given,
                            const at::Tensor& kernel1, const at::Tensor& bias1,
                            const at::Tensor& kernel2, const at::Tensor& bias2) {
    const at::Tensor x = aligned(given.contiguous()), shift = bias1.contiguous();
    const at::Tensor weight1 = aligned_weight(kernel1), weight2 = aligned_weight(kernel2);
    const at::Tensor sums = left_product(weight1, x), hidden = at::empty_like(sums);
    const RowGeluPass pass = {.rows = sums.size(0) * sums.size(1),
                              .size = sums.size(2),
                              .period = sums.size(1),
                              .x = bf16_numbers(sums),
                              .bias = shift.const_data_ptr<float>(),
                              .y = bf16_numbers(hidden)};
    static auto* const run = cuda_function<RunRowGelu>("bvtrain_cuda_row_gelu");
    run(pass, cuda_stream(x.device()));
    note_kernel("bvtrain::row_gelu", {sums, hidden});
    context->save_for_backward({x, weight1, shift, sums, hidden, weight2});
    const int64_t n = x.size(0), tokens = x.size(1);
    return at::baddbmm(bias2.to(at::kBFloat16).view({tokens, 1}).expand({n, tokens, x.size(2)}),
                       weight2.expand({n, -1, -1}), hidden);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight1 = saved[1], &shift = saved[2], &sums = saved[3],
                     &hidden = saved[4], &weight2 = saved[5];
    const at::Tensor grad = aligned(grads[0].to(at::kBFloat16).contiguous());
    const at::Tensor of_hidden = left_product(weight2.t(), grad);
    const at::Tensor dsums = at::empty_like(sums);
    const at::Tensor row_sums = at::empty({sums.size(0), sums.size(1)}, shift.options());
    const RowGeluGradient pass = {.rows = row_sums.numel(),
                                  .size = sums.size(2),
                                  .period = sums.size(1),
                                  .x = bf16_numbers(sums),
                                  .bias = shift.const_data_ptr<float>(),
                                  .grad = bf16_numbers(of_hidden),
                                  .dx = bf16_numbers(dsums),
                                  .sums = row_sums.data_ptr<float>()};
    static auto* const run = cuda_function<RunRowGeluGradient>("bvtrain_cuda_row_gelu_gradient");
    run(pass, cuda_stream(x.device()));
    note_kernel("bvtrain::row_gelu_gradient", {sums, of_hidden, dsums});
    variable_list result(5);
    if (context->needs_input_grad(0)) result[0] = left_product(weight1.t(), dsums);
    if (context->needs_input_grad(1)) result[1] = summed_product(x, dsums);
    if (context->needs_input_grad(2)) result[2] = row_sums.sum(0);
    if (context->needs_input_grad(3)) result[3] = summed_product(grad, hidden).t();
    if (context->needs_input_grad(4))
      result[4] = grad.sum(at::IntArrayRef{0, 2}, /*keepdim=*/false, at::kFloat);
    return result;
  }
};

KernelCheck token_check(c10::Device device) {
  constexpr int64_t kN = 2, kTokens = 9, kFeatures = 16, kHidden = 24;
  return {.inputs = {check_numbers({kN, kTokens, kFeatures}, 1, device, at::kBFloat16),
                     check_numbers({kHidden, kTokens}, 2, device).t(),
                     check_numbers({kHidden}, 3, device),
                     check_numbers({kTokens, kHidden}, 4, device).t(),
                     check_numbers({kTokens}, 5, device)},
          .fused = [](const variable_list& all) -> variable_list {
            return {device_token_mlp(all[0], all[1], all[2], all[3], all[4])};
          },
          .plain = [](const variable_list& all) -> variable_list {
            const at::Tensor inner = at::linear(all[0].transpose(1, 2), all[1].t(), all[2]);
            return {at::linear(at::gelu(inner, "tanh"), all[3].t(), all[4]).transpose(1, 2)};
          }};
}

}  // namespace

bool device_token_mlp_fits(const at::Tensor& x, int64_t hidden) {
  return x.is_cuda() && x.scalar_type() == at::kBFloat16 && !plain_kernels() && x.dim() == 3 &&
         x.numel() > 0 && row_gelu_pass_fits(x.size(2)) && hidden % kAligned == 0 &&
         fused_kernel_is_right("the MLP over tokens", x.device(), token_check);
}

at::Tensor device_token_mlp(const at::Tensor& x, const at::Tensor& kernel1, const at::Tensor& bias1,
                            const at::Tensor& kernel2, const at::Tensor& bias2) {
  return DeviceTokenMlp::apply(x, kernel1, bias1, kernel2, bias2);
}

}  // namespace bv
