#include "lib/model/layers/group_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/relu.h>

#include "lib/device/plain_kernels.h"
#include "lib/model/init.h"
#include "lib/model/kernels/group_norm.h"

namespace bv {
namespace {

// LibTorch's kernel. Returns a tensor in the type of x.
at::Tensor plain_group_norm(const at::Tensor& x, const GroupNorm& norm) {
  // The CPU kernel takes bfloat16 x with float32 parameters, and computes in float32. The CUDA
  // kernel throws unless all have one type. With plain_kernels(), the CPU takes the same path as
  // CUDA.
  if ((x.is_cpu() && !plain_kernels()) || x.scalar_type() == at::kFloat)
    return at::group_norm(x, norm.groups, norm.scale, norm.bias, norm.eps);
  return at::group_norm(x.to(at::kFloat), norm.groups, norm.scale, norm.bias, norm.eps)
      .to(x.scalar_type());
}

at::Tensor fused(const at::Tensor& x, const GroupNorm& norm, NormTail tail, at::ScalarType type,
                 const std::optional<at::Tensor>& shortcut = {}) {
  return fused_group_norm(x, norm.groups, norm.scale, norm.bias, norm.eps, tail, type, shortcut);
}

}  // namespace

GroupNorm GroupNorm::add(Module& owner, const std::string& name, int64_t channels, int64_t groups) {
  return {owner.add_parameter(name + "/scale", {channels}, ones()),
          owner.add_parameter(name + "/bias", {channels}, zeros()), groups};
}

at::Tensor GroupNorm::operator()(const at::Tensor& x, at::ScalarType type) const {
  if (group_norm_fits(x)) return fused(x, *this, NormTail::nothing, type);
  return plain_group_norm(x, *this).to(type);
}

at::Tensor GroupNorm::relu(const at::Tensor& x, at::ScalarType type) const {
  if (group_norm_fits(x)) return fused(x, *this, NormTail::relu, type);
  return at::relu(plain_group_norm(x, *this)).to(type);
}

at::Tensor GroupNorm::add_relu(const at::Tensor& x, const at::Tensor& shortcut) const {
  if (group_norm_fits(x)) return fused(x, *this, NormTail::add_relu, at::kFloat, shortcut);
  return at::relu(shortcut + plain_group_norm(x, *this));
}

}  // namespace bv
