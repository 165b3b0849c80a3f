#include "lib/model/kernels/device/device_layer_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/layer_norm.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lib/device/cuda.h"
#include "lib/device/operator_record.h"
#include "lib/device/plain_kernels.h"
#include "lib/model/kernels/device/aligned.h"
#include "lib/model/kernels/device/device_check.h"
#include "lib/model/kernels/device/layer_norm_pass.h"
#include "lib/model/kernels/device/numbers.h"

namespace bv {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool is_float(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kBFloat16;
}

class DeviceLayerNorm : public torch::autograd::Function<DeviceLayerNorm> {
 public:
  // Returns {s, y}; without a branch only {y}.
  static variable_list forward(AutogradContext* context, const at::Tensor& given,
                               const std::optional<at::Tensor>& given_branch,
                               const at::Tensor& scale, const at::Tensor& bias, double eps,
                               at::ScalarType type) {
    const at::Tensor x = aligned(given.contiguous());
    const at::Tensor branch = given_branch ? aligned(given_branch->contiguous()) : at::Tensor();
    const at::Tensor sum = given_branch ? at::empty(x.sizes(), x.options()) : x;
    const at::Tensor y = at::empty(x.sizes(), x.options().dtype(type));
    const int64_t size = x.size(-1), rows = x.numel() / size;
    const at::Tensor moments = at::empty({rows, 2}, scale.options());
    const LayerNormPass pass = {.rows = rows,
                                .size = size,
                                .eps = static_cast<float>(eps),
                                .x = numbers(x),
                                .branch = numbers(branch),
                                .sum = numbers(sum),
                                .scale = scale.const_data_ptr<float>(),
                                .bias = bias.const_data_ptr<float>(),
                                .y = numbers(y),
                                .moments = moments.data_ptr<float>()};
    static auto* const run = cuda_function<RunLayerNorm>("bvtrain_cuda_layer_norm");
    run(pass, cuda_stream(x.device()));
    note_kernel("bvtrain::layer_norm", {x, branch, given_branch ? sum : at::Tensor(), y});
    context->set_materialize_grads(false);
    context->saved_data["branch"] =
        given_branch ? c10::IValue(static_cast<int64_t>(branch.scalar_type())) : c10::IValue();
    // `sum` is a result if there is a branch. Otherwise it is x: the input, or a copy of it.
    context->save_for_backward({sum, scale, moments});
    return given_branch ? variable_list{sum, y} : variable_list{y};
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &s = saved[0], &scale = saved[1], &moments = saved[2];
    const c10::IValue& branch = context->saved_data["branch"];
    const at::Tensor of_sum =
        branch.isNone() || !grads[0].defined() ? at::Tensor() : aligned(grads[0].contiguous());
    const at::Tensor& of_y = grads.back();
    // Nothing used y, so s has no gradient through y.
    if (!of_y.defined()) return only_through_sum(of_sum, branch);
    const at::Tensor grad = aligned(of_y.contiguous());
    const at::Tensor dx = at::empty(s.sizes(), s.options());
    const at::Tensor dparams = at::empty({2, s.size(-1)}, scale.options());
    at::Tensor dbranch = dx;
    const bool other =
        !branch.isNone() && static_cast<at::ScalarType>(branch.toInt()) != s.scalar_type();
    if (other)
      dbranch =
          at::empty(s.sizes(), s.options().dtype(static_cast<at::ScalarType>(branch.toInt())));
    const LayerNormGradient pass = {.rows = s.numel() / s.size(-1),
                                    .size = s.size(-1),
                                    .x = numbers(s),
                                    .moments = moments.const_data_ptr<float>(),
                                    .scale = scale.const_data_ptr<float>(),
                                    .grad = numbers(grad),
                                    .grad_sum = numbers(of_sum),
                                    .dx = numbers(dx),
                                    .dbranch = numbers(other ? dbranch : at::Tensor()),
                                    .dparams = dparams.data_ptr<float>()};
    static auto* const run =
        cuda_function<RunLayerNormGradient>("bvtrain_cuda_layer_norm_gradient");
    run(pass, cuda_stream(s.device()));
    note_kernel("bvtrain::layer_norm_gradient",
                {s, grad, of_sum, dx, other ? dbranch : at::Tensor()});
    return {dx, branch.isNone() ? at::Tensor() : dbranch, dparams[0], dparams[1], {}, {}};
  }

 private:
  static variable_list only_through_sum(const at::Tensor& grad, const c10::IValue& branch) {
    if (!grad.defined()) return variable_list(6);
    return {grad, grad.to(static_cast<at::ScalarType>(branch.toInt())), {}, {}, {}, {}};
  }
};

// Rows of three sizes, with a branch, and of the first size also without one. The first size has
// more rows than the gradient kernel's blocks process in one iteration.
KernelCheck layer_norm_check(c10::Device device) {
  constexpr double kEps = 1e-6;
  KernelCheck check;
  for (const auto& [rows, size] : {std::pair<int64_t, int64_t>{4300, 8}, {9, 768}, {9, 1024}}) {
    const auto seed = std::ssize(check.inputs);
    check.inputs.push_back(check_numbers({rows, size}, seed + 1, device));
    check.inputs.push_back(check_numbers({rows, size}, seed + 2, device, at::kBFloat16));
    check.inputs.push_back(check_numbers({size}, seed + 3, device));
    check.inputs.push_back(check_numbers({size}, seed + 4, device));
  }
  check.fused = [](const variable_list& all) {
    variable_list results;
    for (size_t i = 0; i < all.size(); i += 4) {
      const auto [sum, y] =
          device_layer_norm(all[i], all[i + 1], all[i + 2], all[i + 3], kEps, at::kBFloat16);
      results.insert(results.end(), {sum, y});
    }
    results.push_back(device_layer_norm(all[0], {}, all[2], all[3], kEps, at::kFloat).second);
    return results;
  };
  check.plain = [](const variable_list& all) {
    variable_list results;
    const auto norm = [&](const at::Tensor& x, size_t i) {
      return at::layer_norm(x, {x.size(1)}, all[i + 2], all[i + 3], kEps);
    };
    for (size_t i = 0; i < all.size(); i += 4) {
      const at::Tensor sum = all[i] + all[i + 1];
      results.insert(results.end(), {sum, norm(sum, i)});
    }
    results.push_back(norm(all[0], 0));
    return results;
  };
  return check;
}

}  // namespace

bool device_layer_norm_fits(const at::Tensor& x, const std::optional<at::Tensor>& branch,
                            const at::Tensor& scale, const at::Tensor& bias) {
  const int64_t size = x.size(-1);
  for (const at::Tensor& parameter : {scale, bias}) {
    if (!parameter.is_contiguous() || parameter.numel() != size ||
        parameter.scalar_type() != at::kFloat ||
        reinterpret_cast<uintptr_t>(parameter.const_data_ptr()) % 16 != 0)
      return false;
  }
  const bool same = !branch || (branch->sizes() == x.sizes() && is_float(*branch));
  return x.is_cuda() && !plain_kernels() && x.numel() > 0 && is_float(x) && same &&
         layer_norm_pass_fits(size) &&
         fused_kernel_is_right("layer norm", x.device(), layer_norm_check);
}

std::pair<at::Tensor, at::Tensor> device_layer_norm(const at::Tensor& x,
                                                    const std::optional<at::Tensor>& branch,
                                                    const at::Tensor& scale, const at::Tensor& bias,
                                                    double eps, at::ScalarType type) {
  const variable_list results = DeviceLayerNorm::apply(x, branch, scale, bias, eps, type);
  return {branch ? results[0] : x, results.back()};
}

}  // namespace bv
