// Batch normalization with statistics over several ranks, for the devices and sizes that the
// kernels in batch_norm.cc do not support.
#include <ATen/TensorOperators.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/stack.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lib/model/kernels/batch_norm.h"

namespace bv {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor by_channel(const at::Tensor& values) { return values.view({1, -1, 1, 1}); }

class BatchNormOverRanks : public torch::autograd::Function<BatchNormOverRanks> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& scale,
                            const at::Tensor& bias, const BatchStatistics& statistics, double eps) {
    const at::Tensor invstd = at::rsqrt(statistics.var + eps);
    const at::Tensor gain = scale * invstd, shift = bias - statistics.mean * gain;
    context->saved_data["constant"] = statistics.constant;
    // With constant statistics x may be freed.
    context->save_for_backward(statistics.constant
                                   ? variable_list{gain}
                                   : variable_list{x, statistics.mean, invstd, gain});
    context->saved_data["type"] = static_cast<int64_t>(x.scalar_type());
    context->saved_data["rows"] = statistics.rows;
    context->saved_data["group"] = reinterpret_cast<int64_t>(statistics.group);
    return (x * by_channel(gain) + by_channel(shift)).to(x.scalar_type());
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    if (context->saved_data["constant"].toBool()) {
      const auto type = static_cast<at::ScalarType>(context->saved_data["type"].toInt());
      return {(grads[0] * by_channel(saved[0])).to(type), {}, {}, {}, {}};
    }
    const at::Tensor &x = saved[0], &mean = saved[1], &invstd = saved[2], &gain = saved[3];
    const double rows = context->saved_data["rows"].toDouble();
    auto* group = reinterpret_cast<Group*>(context->saved_data["group"].toInt());
    const at::Tensor grad = grads[0].to(at::kFloat);
    const at::Tensor normal = (x - by_channel(mean)) * by_channel(invstd);
    // The gradient of x needs the sums over all ranks. Those of scale and bias are this rank's
    // share, as for all parameters: the training step sums them over ranks.
    const at::Tensor sums =
        at::stack({grad.sum({0, 2, 3}, false, at::kDouble),
                   (grad * normal).sum({0, 2, 3}, false, at::kDouble)});  // (2, c)
    const at::Tensor all = sums.clone();
    group->all_reduce_sum(all, "batch norm, backward").wait();
    const at::Tensor means = (all / rows).to(at::kFloat);
    const at::Tensor dx =
        (grad - by_channel(means[0]) - normal * by_channel(means[1])) * by_channel(gain);
    return {dx.to(x.scalar_type()), sums[1].to(at::kFloat), sums[0].to(at::kFloat), {}, {}};
  }
};

}  // namespace

at::Tensor batch_norm_over_ranks(const at::Tensor& x, const at::Tensor& scale,
                                 const at::Tensor& bias, const BatchStatistics& statistics,
                                 double eps) {
  return BatchNormOverRanks::apply(x, scale, bias, statistics, eps);
}

}  // namespace bv
