#include "lib/model/layers/group_norm.h"

#include <ATen/ops/group_norm.h>

#include "lib/device/plain_kernels.h"
#include "lib/model/init.h"

namespace bv {

GroupNorm GroupNorm::add(Module& owner, const std::string& name, int64_t channels, int64_t groups) {
  return {owner.add_parameter(name + "/scale", {channels}, ones()),
          owner.add_parameter(name + "/bias", {channels}, zeros()), groups};
}

at::Tensor group_norm(const at::Tensor& x, int64_t groups, const at::Tensor& scale,
                      const at::Tensor& bias, double eps) {
  // The CPU kernel takes bfloat16 x with float32 parameters, and computes in float32. The CUDA
  // kernel throws unless all have one type. With plain_kernels(), the CPU takes the same path as
  // CUDA.
  if ((x.is_cpu() && !plain_kernels()) || x.scalar_type() == at::kFloat)
    return at::group_norm(x, groups, scale, bias, eps);
  return at::group_norm(x.to(at::kFloat), groups, scale, bias, eps).to(x.scalar_type());
}

at::Tensor GroupNorm::operator()(const at::Tensor& x) const {
  return group_norm(x, groups, scale, bias, 1e-6);
}

}  // namespace bv
