#include "lib/model/kernels/float_products.h"

#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include <algorithm>

#include "lib/device/cpu_isa.h"
#include "lib/device/plain_kernels.h"
#include "lib/model/gradient_memory.h"
#include "lib/model/kernels/transpose.h"

namespace bv {
namespace {

// In smaller products oneDNN's overhead outweighs its speed.
constexpr int64_t kOneDnnLeastMacs = 1 << 22;

using OneDnnLinear = at::Tensor(const at::Tensor& x, const at::Tensor& weight,
                                const std::optional<at::Tensor>& bias, std::string_view attribute,
                                c10::List<std::optional<at::Scalar>> scalars,
                                std::optional<std::string_view> algorithm);

// LibTorch's only operator that passes a float32 product to oneDNN without converting its operands.
// torch.compile uses it. nullopt if LibTorch was built without oneDNN.
const std::optional<c10::TypedOperatorHandle<OneDnnLinear>>& onednn_linear() {
  static const auto found = []() -> std::optional<c10::TypedOperatorHandle<OneDnnLinear>> {
    const auto handle = c10::Dispatcher::singleton().findSchema({"mkldnn::_linear_pointwise", ""});
    if (!handle) return std::nullopt;
    return handle->typed<OneDnnLinear>();
  }();
  return found;
}

// Returns the transposed matrix (rows, columns), contiguous.
at::Tensor transposed(const at::Tensor& matrix) {
  if (matrix.stride(1) != 1) return matrix.t().contiguous();
  // LibTorch's copy of a matrix with contiguous rows takes several times as long as this.
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

}  // namespace

bool has_onednn() { return onednn_linear().has_value(); }

bool prefers_onednn(int64_t macs) {
#if defined(__x86_64__)
  static const bool amd = __builtin_cpu_is("amd") && cpu_isa() >= CpuIsa::avx2;
  return amd && macs >= kOneDnnLeastMacs && has_onednn() && !plain_kernels();
#else
  return false;
#endif
}

// LibTorch copies x if it is not contiguous. oneDNN is very slow with a weight that has gaps in
// memory, so such a weight is also copied.
at::Tensor onednn_product(const at::Tensor& x, const at::Tensor& weight,
                          const std::optional<at::Tensor>& bias) {
  TORCH_CHECK(has_onednn(), "LibTorch was built without oneDNN");
  const at::Tensor dense = weight.is_non_overlapping_and_dense() ? weight : weight.contiguous();
  // It ignores the strides of the bias.
  const auto dense_bias = bias ? std::optional(bias->contiguous()) : std::nullopt;
  return onednn_linear()->call(x, dense, dense_bias, "none", c10::List<std::optional<at::Scalar>>(),
                               std::nullopt);
}

// Transposes the operand with fewer columns.
at::Tensor onednn_transposed_product(const at::Tensor& left, const at::Tensor& right) {
  return left.size(1) <= right.size(1) ? onednn_product(transposed(left), right.t())
                                       : onednn_product(transposed(right), left.t()).t();
}

at::Tensor float_product(const at::Tensor& x, const at::Tensor& weight,
                         const std::optional<at::Tensor>& bias) {
  if (prefers_onednn(x.numel() * weight.size(0))) return onednn_product(x, weight, bias);
  return bias ? at::addmm(*bias, x, weight.t()) : at::mm(x, weight.t());
}

at::Tensor float_weight_gradient(const at::Tensor& grad, const at::Tensor& x,
                                 const at::Tensor& weight) {
  if (prefers_onednn(grad.numel() * x.size(1))) return onednn_transposed_product(grad, x);
  at::Tensor result = new_gradient(weight);
  return at::mm_out(result, grad.t(), x);
}

}  // namespace bv
