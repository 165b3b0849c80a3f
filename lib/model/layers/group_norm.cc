#include "lib/model/layers/group_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/relu.h>

#include "lib/device/plain_kernels.h"
#include "lib/model/init.h"
#include "lib/model/kernels/group_norm.h"

namespace bv {
namespace {

// In LibTorch 2.11 the backward pass on CPUs crashes if x is channels_last and needs no gradient,
// because the layers before it are frozen, but scale and bias do.
at::Tensor torch_group_norm(const at::Tensor& x, const GroupNorm& norm) {
  const bool crashes = x.is_cpu() && at::GradMode::is_enabled() && !x.requires_grad() &&
                       x.suggest_memory_format() != at::MemoryFormat::Contiguous;
  // contiguous() would return a channels_last x of 1x1 pixels as it is.
  return at::group_norm(crashes ? x.clone(at::MemoryFormat::Contiguous) : x, norm.groups,
                        norm.scale, norm.bias, norm.eps);
}

// LibTorch's kernel. Returns a tensor of x's type.
at::Tensor plain_group_norm(const at::Tensor& x, const GroupNorm& norm) {
  // The CPU kernel takes bfloat16 x with float32 parameters, and computes in float32. The CUDA
  // kernel throws unless all types are equal. With plain_kernels(), the CPU takes the same path as
  // CUDA.
  if ((x.is_cpu() && !plain_kernels()) || x.scalar_type() == at::kFloat)
    return torch_group_norm(x, norm);
  return torch_group_norm(x.to(at::kFloat), norm).to(x.scalar_type());
}

// Kernels for CUDA take channels_last activations, which convolutions return there.
at::Tensor for_cuda_kernel(const at::Tensor& x) {
  return x.is_cuda() && !plain_kernels() ? x.contiguous(at::MemoryFormat::ChannelsLast) : x;
}

at::Tensor fused(const at::Tensor& x, const GroupNorm& norm, NormTail tail, at::ScalarType type) {
  return fused_group_norm(x, norm.groups, norm.scale, norm.bias, norm.eps, tail, type);
}

}  // namespace

GroupNorm GroupNorm::add(Module& owner, const std::string& name, int64_t channels, int64_t groups) {
  return {owner.add_parameter(name + "/scale", {channels}, ones()),
          owner.add_parameter(name + "/bias", {channels}, zeros()), groups};
}

at::Tensor GroupNorm::operator()(const at::Tensor& given, at::ScalarType type) const {
  const at::Tensor x = for_cuda_kernel(given);
  if (group_norm_fits(x)) return fused(x, *this, NormTail::nothing, type);
  return plain_group_norm(x, *this).to(type);
}

at::Tensor GroupNorm::relu(const at::Tensor& given, at::ScalarType type) const {
  const at::Tensor x = for_cuda_kernel(given);
  if (group_norm_fits(x)) return fused(x, *this, NormTail::relu, type);
  return at::relu(plain_group_norm(x, *this)).to(type);
}

ResidualSum GroupNorm::add_relu(const at::Tensor& given, const at::Tensor& shortcut,
                                at::ScalarType type) const {
  const at::Tensor x = for_cuda_kernel(given);
  if (group_norm_fits(x)) {
    const auto [sum, rounded] =
        fused_group_norm_add_relu(x, groups, scale, bias, eps, shortcut, type);
    return {sum, rounded};
  }
  const at::Tensor sum = at::relu(shortcut + plain_group_norm(x, *this));
  return {sum, sum.to(type)};
}

}  // namespace bv
