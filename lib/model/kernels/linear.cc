#include "lib/model/kernels/linear.h"

#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "lib/device/plain_kernels.h"
#include "lib/model/kernels/transpose.h"

namespace bv {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kLeastMacs =
    1 << 22;  // in smaller products oneDNN's overhead outweighs its speed

using OneDnnLinear = at::Tensor(const at::Tensor& x, const at::Tensor& weight,
                                const std::optional<at::Tensor>& bias, std::string_view attribute,
                                c10::List<std::optional<at::Scalar>> scalars,
                                std::optional<std::string_view> algorithm);

// LibTorch's only operator that hands a float32 product to oneDNN and needs no conversion of its
// operands. torch.compile uses it. nullopt if LibTorch was built without oneDNN.
const std::optional<c10::TypedOperatorHandle<OneDnnLinear>>& onednn_linear() {
  static const auto found = []() -> std::optional<c10::TypedOperatorHandle<OneDnnLinear>> {
    const auto handle = c10::Dispatcher::singleton().findSchema({"mkldnn::_linear_pointwise", ""});
    if (!handle) return std::nullopt;
    return handle->typed<OneDnnLinear>();
  }();
  return found;
}

bool prefers_onednn() {
#if defined(__x86_64__)
  static const bool amd = __builtin_cpu_is("amd") && __builtin_cpu_supports("avx2");
  return amd && onednn_linear().has_value();
#else
  return false;
#endif
}

// Returns x weight^T + bias; x (n, in), weight (out, in), of any strides. LibTorch copies x if it
// is not contiguous. oneDNN is very slow with a weight that has gaps in memory, so such a weight is
// copied too.
at::Tensor product(const at::Tensor& x, const at::Tensor& weight,
                   const std::optional<at::Tensor>& bias = std::nullopt) {
  TORCH_CHECK(onednn_linear().has_value(), "LibTorch was built without oneDNN");
  const at::Tensor dense = weight.is_non_overlapping_and_dense() ? weight : weight.contiguous();
  return onednn_linear()->call(x, dense, bias, "none", c10::List<std::optional<at::Scalar>>(),
                               std::nullopt);
}

// Returns the transposed matrix (rows, columns), contiguous.
at::Tensor transposed(const at::Tensor& matrix) {
  if (matrix.stride(1) != 1) return matrix.t().contiguous();
  // LibTorch's copy of a matrix whose rows are contiguous takes several times as long as this.
  constexpr int64_t kRows = 64, kColumns = 16;  // of a block, which fits the first-level cache
  const int64_t rows = matrix.size(0), columns = matrix.size(1), stride = matrix.stride(0);
  const at::Tensor result = at::empty({columns, rows}, matrix.options());
  const float* const from = matrix.const_data_ptr<float>();
  float* const to = result.data_ptr<float>();
  at::parallel_for(0, at::divup(rows, kRows), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * kRows; i < std::min(end * kRows, rows); i += kRows) {
      for (int64_t j = 0; j < columns; j += kColumns) {
        transpose_columns(from + i * stride + j, stride, std::min(kRows, rows - i),
                          std::min(kColumns, columns - j), rows, to + j * rows + i);
      }
    }
  });
  return result;
}

// Returns left^T right; left (n, a), right (n, b). Transposes the operand with fewer columns.
at::Tensor transposed_product(const at::Tensor& left, const at::Tensor& right) {
  return left.size(1) <= right.size(1) ? product(transposed(left), right.t())
                                       : product(transposed(right), left.t()).t();
}

class Linear : public torch::autograd::Function<Linear> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias) {
    context->save_for_backward({x, weight});
    return product(x, weight, bias);
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &grad = grads[0];  // grad (n, out)
    variable_list result(3);
    if (context->needs_input_grad(0)) result[0] = product(grad, weight.t());
    if (context->needs_input_grad(1)) result[1] = transposed_product(grad, x);
    if (context->needs_input_grad(2)) result[2] = grad.sum(0);
    return result;
  }
};

}  // namespace

at::Tensor linear_by_onednn(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = weight.size(0);
  return Linear::apply(x.reshape({-1, x.size(-1)}), weight, bias).reshape(shape);
}

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const bool fits = x.is_cpu() && x.scalar_type() == at::kFloat && !plain_kernels() &&
                    x.numel() * weight.size(0) >= kLeastMacs && prefers_onednn();
  // at::linear() adds the bias within the product only if x is contiguous. If not, it copies x too.
  return fits ? linear_by_onednn(x, weight, bias) : at::linear(x.contiguous(), weight, bias);
}

}  // namespace bv
