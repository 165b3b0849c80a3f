#include "lib/model/layers/compute.h"

#include <ATen/ops/conv2d.h>

#include "lib/device/cpu_bf16.h"
#include "lib/model/kernels/conv_in_float32.h"
#include "lib/model/kernels/device/device_linear.h"
#include "lib/model/kernels/linear.h"

namespace bv {

namespace {

bool computes_in_float32(const at::Tensor& x, at::ScalarType type) {
  return type == at::kBFloat16 && x.is_cpu() && multiplies_bf16_in_float32();
}

// Returns whether oneDNN may compute this convolution wrongly in bfloat16. In LibTorch 2.11 it uses
// uninitialized memory if the result is one pixel wide and the stride above 1: the gradient of the
// weight is then wrong, and for tall images the result too.
bool is_wrong_in_bf16(const at::Tensor& x, const at::Tensor& weight, at::IntArrayRef stride,
                      at::IntArrayRef padding, at::ScalarType type) {
  return x.is_cpu() && type == at::kBFloat16 && stride[1] > 1 &&
         x.size(3) + 2 * padding[1] - weight.size(3) < stride[1];
}

}  // namespace

at::ScalarType compute_type(const Pass& pass) {
  return pass.precision == Precision::bf16 ? at::kBFloat16 : at::kFloat;
}

at::ScalarType weight_type(const at::Tensor& x, const Pass& pass) {
  const at::ScalarType type = compute_type(pass);
  return computes_in_float32(x, type) ? at::kFloat : type;
}

at::Tensor to_compute(const at::Tensor& x, const Pass& pass) { return x.to(compute_type(pass)); }

void count_macs(Pass& pass, int64_t macs) {
  if (pass.macs) *pass.macs += static_cast<double>(macs);
}

at::Tensor matmul(const at::Tensor& x, const at::Tensor& kernel, const at::Tensor& bias,
                  at::ScalarType type, Pass& pass) {
  const int64_t in = x.size(-1);
  if (type == at::kBFloat16 && x.is_cuda()) {
    const at::Tensor matrix = kernel.reshape({in, -1});
    if (fits_device_linear(x, matrix) && matrix.size(1) == bias.numel()) {
      count_macs(pass, x.numel() * matrix.size(1));
      return device_linear(x.to(type), matrix, bias.reshape(-1));
    }
  }
  const bool in_float32 = computes_in_float32(x, type);
  const bool in_bf16 = type == at::kBFloat16 && fits_linear_in_bf16(x);
  const at::Tensor matrix = in_float32 || in_bf16 ? kernel : kernel.to(type);
  const at::Tensor weight = matrix.reshape({in, -1}).t();  // (out, in)
  TORCH_CHECK(weight.size(0) == bias.numel(), in, " features do not fit a kernel of shape ",
              kernel.sizes());
  count_macs(pass, x.numel() * weight.size(0));
  if (in_float32) return linear_in_float32(x.to(type), weight, bias.reshape(-1));
  if (in_bf16) return linear_in_bf16(x, weight, bias.reshape(-1));
  return linear(x.to(type), weight, bias.to(type).reshape(-1));
}

at::Tensor convolve(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                    at::IntArrayRef stride, at::IntArrayRef padding, Pass& pass) {
  const at::ScalarType type = compute_type(pass);
  const bool in_float32 =
      computes_in_float32(x, type) || is_wrong_in_bf16(x, weight, stride, padding, type);
  const at::Tensor y = in_float32
                           ? conv2d_in_float32(x.to(type), weight, bias, stride, padding)
                           : at::conv2d(x.to(type), weight.to(type),
                                        bias.defined() ? bias.to(type) : bias, stride, padding);
  count_macs(pass, y.numel() * (weight.numel() / weight.size(0)));
  return y;
}

}  // namespace bv
