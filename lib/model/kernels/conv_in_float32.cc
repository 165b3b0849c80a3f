#include "lib/model/kernels/conv_in_float32.h"

#include <ATen/ops/conv2d.h>
#include <ATen/ops/convolution_backward.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <optional>

namespace bv {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The tensors saved for backward are bfloat16.
class ConvInFloat32 : public torch::autograd::Function<ConvInFloat32> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, at::IntArrayRef stride,
                            at::IntArrayRef padding) {
    context->save_for_backward({x, weight});
    context->saved_data["stride"] = stride.vec();
    context->saved_data["padding"] = padding.vec();
    if (bias) context->saved_data["bias"] = static_cast<int64_t>(bias->scalar_type());
    const std::optional<at::Tensor> wide = bias ? std::optional(bias->to(at::kFloat)) : bias;
    return at::conv2d(x.to(at::kFloat), weight.to(at::kFloat), wide, stride, padding)
        .to(x.scalar_type());
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1];
    const auto numbers = [&](const char* name) { return context->saved_data[name].toIntVector(); };
    const bool with_bias = context->saved_data.count("bias") > 0;
    const std::array<bool, 3> wanted = {context->needs_input_grad(0), context->needs_input_grad(1),
                                        with_bias && context->needs_input_grad(2)};
    auto [dx, dweight, dbias] = at::convolution_backward(
        grads[0].to(at::kFloat), x.to(at::kFloat), weight.to(at::kFloat),
        at::OptionalIntArrayRef({weight.size(0)}), numbers("stride"), numbers("padding"),
        /*dilation=*/{1, 1}, /*transposed=*/false, /*output_padding=*/{0, 0}, /*groups=*/1, wanted);
    if (wanted[0]) dx = dx.to(x.scalar_type());
    if (wanted[1]) dweight = dweight.to(weight.scalar_type());
    if (wanted[2])
      dbias = dbias.to(static_cast<at::ScalarType>(context->saved_data["bias"].toInt()));
    return {dx, dweight, dbias, {}, {}};
  }
};

}  // namespace

at::Tensor conv2d_in_float32(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                             at::IntArrayRef stride, at::IntArrayRef padding) {
  return ConvInFloat32::apply(x, weight, bias.defined() ? std::optional(bias) : std::nullopt,
                              stride, padding);
}

}  // namespace bv
