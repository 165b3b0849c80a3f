#include "lib/model/layers.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <utility>

#include "lib/model/batch_norm.h"
#include "lib/model/dropout.h"
#include "lib/model/relu_pool.h"
#include "lib/model/stem.h"

namespace bv {
namespace {

void count_macs(Pass& pass, int64_t macs) {
  if (pass.macs) *pass.macs += static_cast<double>(macs);
}

// x (..., in) times a kernel of any shape that flattens to (in, out).
at::Tensor matmul(const at::Tensor& x, const at::Tensor& kernel, const at::Tensor& bias,
                  at::ScalarType type, Pass& pass) {
  const int64_t in = x.size(-1);
  const at::Tensor weight = kernel.to(type).reshape({in, -1}).t();  // (out, in)
  TORCH_CHECK(weight.size(0) == bias.numel(), in, " features do not fit a kernel of shape ",
              kernel.sizes());
  count_macs(pass, x.numel() * weight.size(0));
  return at::linear(x.to(type), weight, bias.to(type).reshape(-1));
}

at::ScalarType compute_type(const Pass& pass) {
  return pass.precision == Precision::bf16 ? at::kBFloat16 : at::kFloat;
}

}  // namespace

at::Tensor to_compute(const at::Tensor& x, const Pass& pass) { return x.to(compute_type(pass)); }

at::Tensor add_stacked(Layer& owner, int64_t layers, const std::string& name,
                       std::vector<int64_t> shape, Init init, std::vector<int64_t> physical) {
  if (layers > 0) {
    shape.insert(shape.begin(), layers);
    init = stacked(std::move(init));
    if (!physical.empty()) {
      for (int64_t& dimension : physical) ++dimension;
      physical.insert(physical.begin(), 0);
    }
  }
  return owner.add_parameter(name, std::move(shape), std::move(init), std::move(physical));
}

Dense Dense::add(Layer& owner, const std::string& name, int64_t in, int64_t out, Init kernel_init,
                 Init bias_init, int64_t layers) {
  return {add_stacked(owner, layers, name + "/kernel", {in, out}, std::move(kernel_init), {1, 0}),
          add_stacked(owner, layers, name + "/bias", {out}, std::move(bias_init))};
}

at::Tensor Dense::operator()(const at::Tensor& x, Pass& pass) const {
  return matmul(x, kernel, bias, compute_type(pass), pass);
}

at::Tensor Dense::head(const at::Tensor& x, Pass& pass) const {
  return matmul(x, kernel, bias, at::kFloat, pass);
}

Conv2d Conv2d::add(Layer& owner, const std::string& name, int64_t size, int64_t in, int64_t out,
                   Init kernel_init, bool with_bias) {
  return {owner.add_parameter(name + "/kernel", {size, size, in, out}, std::move(kernel_init),
                              {3, 0, 1, 2}),
          with_bias ? owner.add_parameter(name + "/bias", {out}, zeros()) : at::Tensor()};
}

at::Tensor Conv2d::operator()(const at::Tensor& x, Pass& pass) const {
  const at::Tensor weight = to_compute(kernel, pass).permute({3, 2, 0, 1});  // (out, in, k, k)
  const int64_t pad = (kernel.size(0) - 1) / 2;
  const at::Tensor y =
      at::conv2d(to_compute(x, pass), weight, bias.defined() ? to_compute(bias, pass) : bias,
                 /*stride=*/1, /*padding=*/pad);
  count_macs(pass, y.numel() * (weight.numel() / weight.size(0)));
  return y;
}

BatchNorm BatchNorm::add(Layer& owner, const std::string& name, int64_t channels) {
  BatchNorm norm;
  norm.scale = owner.add_parameter(name + "/scale", {channels}, ones());
  norm.bias = owner.add_parameter(name + "/bias", {channels}, zeros());
  const at::TensorOptions options = at::TensorOptions(at::kFloat).device(norm.scale.device());
  norm.mean = owner.add_buffer(name + "/mean", at::zeros({channels}, options));
  norm.var = owner.add_buffer(name + "/var", at::ones({channels}, options));
  return norm;
}

BatchStatistics BatchNorm::training_statistics(const at::Tensor& x, const Pass& pass) const {
  // Running statistics are no part of the graph: with it they would keep every step's alive.
  const at::NoGradGuard no_grad;
  const BatchStatistics statistics = batch_statistics(x, pass.group);
  const double rows = statistics.rows;
  at::Tensor running_mean = mean, running_var = var;
  running_mean.lerp_(statistics.mean, 1 - kMomentum);
  running_var.lerp_(statistics.var * (rows / std::max(1.0, rows - 1)), 1 - kMomentum);
  return statistics;
}

at::Tensor BatchNorm::relu(const at::Tensor& x, bool max_pool, const Pass& pass) const {
  // batch_norm_relu's gradient is that of training.
  if (batch_norm_fits(x, max_pool) && (pass.train || !c10::GradMode::is_enabled())) {
    BatchStatistics statistics = {mean, var, static_cast<double>(x.numel() / x.size(1))};
    if (pass.train) statistics = training_statistics(x, pass);
    return batch_norm_relu(x, scale, bias, statistics, kEps, max_pool);
  }
  const bool over_ranks = pass.train && pass.group && pass.group->size() > 1;
  const at::Tensor y =
      over_ranks ? batch_norm_over_ranks(x, scale, bias, training_statistics(x, pass), kEps)
                 : at::batch_norm(x, scale, bias, mean, var, pass.train, 1 - kMomentum, kEps,
                                  /*cudnn_enabled=*/true);
  return max_pool ? at::max_pool2d(at::relu(y), 2) : at::relu(y);
}

GroupNorm GroupNorm::add(Layer& owner, const std::string& name, int64_t channels, int64_t groups) {
  return {owner.add_parameter(name + "/scale", {channels}, ones()),
          owner.add_parameter(name + "/bias", {channels}, zeros()), groups};
}

at::Tensor GroupNorm::operator()(const at::Tensor& x) const {
  return at::group_norm(x, groups, scale, bias, 1e-6);
}

at::Tensor Conv2d::relu_avg_pool(const at::Tensor& x, Pass& pass) const {
  if (!stem_fits(x, kernel)) return bv::relu_avg_pool((*this)(x, pass));
  count_macs(pass, x.numel() * kernel.numel() / kernel.size(2));
  return stem(x, kernel, bias, compute_type(pass));
}

LayerNorm LayerNorm::add(Layer& owner, const std::string& name, int64_t features, int64_t layers) {
  return {add_stacked(owner, layers, name + "/scale", {features}, ones()),
          add_stacked(owner, layers, name + "/bias", {features}, zeros())};
}

at::Tensor LayerNorm::operator()(const at::Tensor& x) const {
  return at::layer_norm(x.to(at::kFloat), {x.size(-1)}, scale, bias, 1e-6);
}

Attention Attention::add(Layer& owner, const std::string& name, int64_t features, int64_t heads,
                         int64_t layers) {
  const int64_t size = features / heads;
  const auto projection = [&](const char* which) {
    const std::string path = name + '/' + which;
    return Dense{add_stacked(owner, layers, path + "/kernel", {features, heads, size},
                             xavier_uniform(features, features), {1, 2, 0}),
                 add_stacked(owner, layers, path + "/bias", {heads, size}, zeros())};
  };
  Attention attention;
  attention.query = projection("query");
  attention.key = projection("key");
  attention.value = projection("value");
  attention.out = {add_stacked(owner, layers, name + "/out/kernel", {heads, size, features},
                               xavier_uniform(features, features), {2, 0, 1}),
                   add_stacked(owner, layers, name + "/out/bias", {features}, zeros())};
  return attention;
}

at::Tensor Attention::operator()(const at::Tensor& queries, const at::Tensor& tokens,
                                 Pass& pass) const {
  const int64_t heads = query.kernel.size(1), size = query.kernel.size(2);
  const at::Tensor x = to_compute(queries, pass);
  const at::Tensor y = queries.is_same(tokens) ? x : to_compute(tokens, pass);
  const auto split = [&](const at::Tensor& input, const Dense& projection) {  // (n, H, l, D/H)
    return projection(input, pass).unflatten(-1, {heads, size}).transpose(1, 2);
  };
  const at::Tensor mixed =
      at::scaled_dot_product_attention(split(x, query), split(y, key), split(y, value));
  count_macs(pass, 2 * x.numel() * y.size(1));
  const at::Tensor kernel = out.kernel.flatten(0, 1);  // (D, D)
  return matmul(mixed.transpose(1, 2).flatten(2), kernel, out.bias, compute_type(pass), pass);
}

Mlp Mlp::add(Layer& owner, const std::string& name, int64_t features, int64_t hidden,
             int64_t layers) {
  const Init kernel = xavier_uniform(features, hidden), bias = normal(1e-6);
  return {Dense::add(owner, name + "/Dense_0", features, hidden, kernel, bias, layers),
          Dense::add(owner, name + "/Dense_1", hidden, features, kernel, bias, layers)};
}

at::Tensor Mlp::operator()(const at::Tensor& x, double dropout_rate, Pass& pass) const {
  return out(dropout(at::gelu(in(x, pass), "tanh"), dropout_rate, pass), pass);
}

}  // namespace bv
