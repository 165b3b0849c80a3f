#include "lib/model/kernels/device/group_norm_cuda.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/relu.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lib/device/cuda.h"
#include "lib/device/operator_record.h"
#include "lib/model/kernels/channels_last.h"
#include "lib/model/kernels/device/aligned.h"
#include "lib/model/kernels/device/device_check.h"

namespace bv {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool is_bf16(at::ScalarType type) { return type == at::kBFloat16; }

GroupNormShape group_norm_pass_shape(const at::Tensor& x, int64_t groups) {
  return {x.size(0), x.size(2) * x.size(3), x.size(1), groups};
}

// The memory of bfloat16 numbers; null if the tensor is not defined.
const uint16_t* bits_of(const at::Tensor& tensor) {
  return tensor.defined() ? static_cast<const uint16_t*>(tensor.const_data_ptr()) : nullptr;
}

at::Tensor aligned_channels_last(const at::Tensor& x) {
  return aligned(x.contiguous(kChannelsLast));
}

at::Tensor empty_for(const at::Tensor& x, at::ScalarType type) {
  return at::empty(x.sizes(), x.options().dtype(type).memory_format(kChannelsLast));
}

class CudaGroupNorm : public torch::autograd::Function<CudaGroupNorm> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& x, int64_t groups,
                               const at::Tensor& scale, const at::Tensor& bias, double eps,
                               NormTail tail, at::ScalarType type,
                               const std::optional<at::Tensor>& shortcut, at::ScalarType rounded) {
    static auto* const run = cuda_function<RunGroupNorm>("bvtrain_cuda_group_norm");
    const GroupNormShape shape = group_norm_pass_shape(x, groups);
    const at::Tensor tables =
        at::empty({shape.n, group_norm_parts::kTables, shape.c}, scale.options());
    variable_list results = {empty_for(x, type)};
    at::Tensor add, active;
    if (tail == NormTail::add_relu) {
      add = aligned_channels_last(*shortcut);
      active = at::empty({x.numel() / group_norm_parts::kOctet}, x.options().dtype(at::kByte));
      if (is_bf16(rounded)) results.push_back(empty_for(x, rounded));
    }
    const GroupNormForward pass = {
        .shape = shape,
        .tail = tail,
        .x_bf16 = is_bf16(x.scalar_type()),
        .y_bf16 = is_bf16(type),
        .eps = eps,
        .x = x.const_data_ptr(),
        .scale = scale.const_data_ptr<float>(),
        .bias = bias.const_data_ptr<float>(),
        .shortcut = add.defined() ? add.const_data_ptr<float>() : nullptr,
        .rounded =
            results.size() > 1 ? static_cast<uint16_t*>(results[1].mutable_data_ptr()) : nullptr,
        .active = active.defined() ? active.data_ptr<uint8_t>() : nullptr,
        .y = results[0].mutable_data_ptr(),
        .tables = tables.data_ptr<float>()};
    run(pass, cuda_stream(x.device()));
    note_kernel("bvtrain::group_norm",
                {x, add, results[0], results.size() > 1 ? results[1] : at::Tensor()});
    context->save_for_backward({x, scale, tables, active});
    context->saved_data["groups"] = groups;
    context->saved_data["tail"] = static_cast<int64_t>(tail);
    context->saved_data["type"] = static_cast<int64_t>(type);
    context->set_materialize_grads(false);
    return results;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    static auto* const run =
        cuda_function<RunGroupNormGradient>("bvtrain_cuda_group_norm_gradient");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &scale = saved[1], &tables = saved[2], &active = saved[3];
    const auto tail = static_cast<NormTail>(context->saved_data["tail"].toInt());
    const auto type = static_cast<at::ScalarType>(context->saved_data["type"].toInt());
    const auto gradient = [&](size_t i) {
      return i < grads.size() && grads[i].defined() ? aligned_channels_last(grads[i])
                                                    : at::Tensor();
    };
    const at::Tensor grad = gradient(0), rounded_grad = gradient(1);
    variable_list all(9);  // one for each argument of forward()
    if (!grad.defined() && !rounded_grad.defined()) return all;
    const at::Tensor dx = empty_for(x, x.scalar_type());
    const at::Tensor dscale = at::empty(scale.sizes(), scale.options());
    const at::Tensor dbias = at::empty(scale.sizes(), scale.options());
    if (tail == NormTail::add_relu) all[7] = empty_for(x, at::kFloat);
    const GroupNormBackward pass = {
        .shape = group_norm_pass_shape(x, context->saved_data["groups"].toInt()),
        .tail = tail,
        .x_bf16 = is_bf16(x.scalar_type()),
        .y_bf16 = is_bf16(type),
        .x = x.const_data_ptr(),
        .scale = scale.const_data_ptr<float>(),
        .tables = tables.const_data_ptr<float>(),
        .grad = grad.defined() ? grad.const_data_ptr() : nullptr,
        .rounded_grad = bits_of(rounded_grad),
        .active = active.defined() ? active.const_data_ptr<uint8_t>() : nullptr,
        .dshortcut = all[7].defined() ? all[7].data_ptr<float>() : nullptr,
        .dx = dx.mutable_data_ptr(),
        .dscale = dscale.data_ptr<float>(),
        .dbias = dbias.data_ptr<float>()};
    run(pass, cuda_stream(x.device()));
    note_kernel("bvtrain::group_norm_gradient", {x, grad, rounded_grad, dx, all[7]});
    all[0] = dx;
    all[2] = dscale;
    all[3] = dbias;
    return all;
  }
};

KernelCheck group_norm_check(c10::Device device) {
  constexpr int64_t kChannels = 32, kGroups = 4;
  constexpr double kEps = 1e-6;
  const auto image = [&](int64_t seed, at::ScalarType type) {
    return check_numbers({2, 3, 5, kChannels}, seed, device, type).permute({0, 3, 1, 2});
  };
  return {.inputs = {image(1, at::kBFloat16), check_numbers({kChannels}, 2, device),
                     check_numbers({kChannels}, 3, device), image(4, at::kFloat)},
          .fused = [](const variable_list& all) -> variable_list {
            const auto norm = [&](NormTail tail, at::ScalarType type,
                                  const std::optional<at::Tensor>& shortcut = {}) {
              return cuda_group_norm(all[0], kGroups, all[1], all[2], kEps, tail, type, shortcut,
                                     shortcut ? at::kBFloat16 : at::kFloat);
            };
            const auto [sum, rounded] = norm(NormTail::add_relu, at::kFloat, all[3]);
            return {norm(NormTail::nothing, at::kFloat).first,
                    norm(NormTail::relu, at::kBFloat16).first, sum, rounded};
          },
          .plain = [](const variable_list& all) -> variable_list {
            const at::Tensor y = at::group_norm(all[0], kGroups, all[1], all[2], kEps);
            const at::Tensor sum = at::relu(y + all[3]);
            return {y, at::relu(y), sum, sum};
          }};
}

}  // namespace

bool cuda_group_norm_is_right(c10::Device device) {
  return fused_kernel_is_right("group norm", device, group_norm_check);
}

std::pair<at::Tensor, at::Tensor> cuda_group_norm(const at::Tensor& x, int64_t groups,
                                                  const at::Tensor& scale, const at::Tensor& bias,
                                                  double eps, NormTail tail, at::ScalarType type,
                                                  const std::optional<at::Tensor>& shortcut,
                                                  at::ScalarType rounded) {
  const variable_list results = CudaGroupNorm::apply(aligned_channels_last(x), groups, scale, bias,
                                                     eps, tail, type, shortcut, rounded);
  return {results.front(), results.back()};
}

}  // namespace bv
