#include "lib/model/layers/compute.h"

#include "lib/model/kernels/device/device_linear.h"
#include "lib/model/kernels/linear.h"

namespace bv {

at::ScalarType compute_type(const Pass& pass) {
  return pass.precision == Precision::bf16 ? at::kBFloat16 : at::kFloat;
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
  const at::Tensor weight = kernel.to(type).reshape({in, -1}).t();  // (out, in)
  TORCH_CHECK(weight.size(0) == bias.numel(), in, " features do not fit a kernel of shape ",
              kernel.sizes());
  count_macs(pass, x.numel() * weight.size(0));
  return linear(x.to(type), weight, bias.to(type).reshape(-1));
}

}  // namespace bv
