#include "lib/model/layers/batch_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "lib/model/init.h"
#include "lib/model/kernels/batch_norm.h"

namespace bv {

BatchNorm BatchNorm::add(Module& owner, const std::string& name, int64_t channels) {
  BatchNorm norm;
  norm.scale = owner.add_parameter(name + "/scale", {channels}, ones());
  norm.bias = owner.add_parameter(name + "/bias", {channels}, zeros());
  const at::TensorOptions options = at::TensorOptions(at::kFloat).device(norm.scale.device());
  norm.mean = owner.add_buffer(name + "/mean", at::zeros({channels}, options));
  norm.var = owner.add_buffer(name + "/var", at::ones({channels}, options));
  owner.note_batch_statistics(norm.scale, norm.bias);
  return norm;
}

BatchStatistics BatchNorm::training_statistics(const at::Tensor& x, const Pass& pass) const {
  // The running statistics must not be part of the graph: they would keep every step's graph alive.
  const at::NoGradGuard no_grad;
  const BatchStatistics statistics = batch_statistics(x, *pass.group);
  const double rows = statistics.rows;
  at::Tensor running_mean = mean, running_var = var;
  running_mean.lerp_(statistics.mean, 1 - kMomentum);
  running_var.lerp_(statistics.var * (rows / std::max(1.0, rows - 1)), 1 - kMomentum);
  return statistics;
}

at::Tensor BatchNorm::relu(const at::Tensor& x, bool max_pool, const Pass& pass) const {
  const bool of_batch = pass.train && !is_frozen();
  const auto running = [&] {
    BatchStatistics statistics = {mean, var, static_cast<double>(x.numel() / x.size(1))};
    statistics.constant = true;
    return statistics;
  };
  // With running statistics, the fused kernel has no gradient of scale and bias. So it is used only
  // if they are frozen, or if no gradient is required.
  if (batch_norm_fits(x, max_pool) && (pass.train || !c10::GradMode::is_enabled())) {
    const BatchStatistics statistics = of_batch ? training_statistics(x, pass) : running();
    return batch_norm_relu(x, scale, bias, statistics, kEps, max_pool);
  }
  // With one value per channel, LibTorch would divide by 0 for the running variance.
  const bool one_value = x.numel() == x.size(1);
  const bool ours = pass.train && (pass.group->size() > 1 || one_value);
  at::Tensor y;
  if (pass.train && !of_batch)
    y = batch_norm_over_ranks(x, scale, bias, running(), kEps);
  else if (ours)
    y = batch_norm_over_ranks(x, scale, bias, training_statistics(x, pass), kEps);
  else
    y = at::batch_norm(x, scale, bias, mean, var, pass.train, 1 - kMomentum, kEps,
                       /*cudnn_enabled=*/true);
  return max_pool ? at::max_pool2d(at::relu(y), 2) : at::relu(y);
}

}  // namespace bv
