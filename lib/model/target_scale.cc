#include "lib/model/target_scale.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "lib/model/scaled_logits.h"

namespace bv {
namespace {

at::Tensor find_buffer(const Model& model, const char* name) {
  for (const auto& [each, value] : model.buffers())
    if (each == name) return value;
  return {};
}

}  // namespace

void add_target_scale(Model& model, int64_t targets) {
  const auto& parameters = model.parameters();
  const auto options =
      at::TensorOptions(at::kFloat)
          .device(parameters.empty() ? c10::Device(c10::kCPU) : parameters.front().value.device());
  model.add_buffer(kTargetMean, at::zeros({targets}, options));
  model.add_buffer(kTargetStd, at::ones({targets}, options));
}

void set_target_scale(Model& model, const std::vector<double>& mean,
                      const std::vector<double>& std) {
  const auto scale = target_scale(model);
  check(scale.has_value(), "a model without a target scale");
  const c10::AutoGradMode no_grad(false);
  scale->mean.copy_(at::tensor(mean, at::kDouble));
  scale->std.copy_(at::tensor(std, at::kDouble));
}

std::optional<TargetScale> target_scale(const Model& model) {
  TargetScale scale = {find_buffer(model, kTargetMean), find_buffer(model, kTargetStd)};
  return scale.mean.defined() && scale.std.defined() ? std::optional(scale) : std::nullopt;
}

double logit_scale_of(const Model& model) {
  const auto* const scaled = dynamic_cast<const ScaledLogits*>(&model);
  return scaled == nullptr ? 1 : scaled->logit_scale();
}

at::Tensor in_target_units(const Model& model, const at::Tensor& outputs) {
  const auto scale = target_scale(model);
  return scale ? outputs * scale->std + scale->mean : outputs;
}

void fold_target_scale(std::map<std::string, at::Tensor>& params,
                       std::map<std::string, at::Tensor>& buffers, const std::string& origin,
                       double logit_scale) {
  const auto mean = buffers.find(kTargetMean), std = buffers.find(kTargetStd);
  if (mean == buffers.end() || std == buffers.end()) return;
  const auto kernel = params.find("head/kernel"), bias = params.find("head/bias");
  if (kernel == params.end() || bias == params.end() ||
      kernel->second.size(-1) != mean->second.size(0)) {
    throw Error(Exit::usage, origin,
                "has a target scale but no last layer head/kernel and head/bias to apply it to");
  }
  const c10::AutoGradMode no_grad(false);
  const at::Tensor factor = std->second.to(at::kDouble);
  kernel->second = kernel->second.to(at::kDouble).mul(factor).to(at::kFloat);
  const at::Tensor shift = mean->second.to(at::kDouble) / logit_scale;
  bias->second = bias->second.to(at::kDouble).mul(factor).add(shift).to(at::kFloat);
  buffers.erase(mean);
  buffers.erase(kTargetStd);
}

}  // namespace bv
