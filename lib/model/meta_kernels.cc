// Shape functions of operators that LibTorch implements on the meta device only in Python. With
// them, a model's forward pass runs on tensors without memory, for example in a --dry-run of a
// large model.
#include <ATen/ExpandUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <tuple>

#include "lib/util/error.h"

namespace bv {
namespace {

using at::Tensor;
using Three = std::tuple<Tensor, Tensor, Tensor>;

Tensor meta_relu(const Tensor& x) { return at::empty_like(x); }

Tensor meta_flip(const Tensor& x, at::IntArrayRef axes) { return at::empty_like(x); }

Tensor& meta_where_out(const Tensor& condition, const Tensor& a, const Tensor& b, Tensor& out) {
  out.resize_(at::infer_size(at::infer_size(condition.sizes(), a.sizes()), b.sizes()));
  return out;
}

Tensor meta_convolution(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias,
                        c10::SymIntArrayRef stride, c10::SymIntArrayRef padding,
                        c10::SymIntArrayRef dilation, bool transposed,
                        c10::SymIntArrayRef output_padding, c10::SymInt groups) {
  std::vector<int64_t> shape = {x.size(0), weight.size(0)};
  for (int64_t i = 2; i < x.dim(); ++i) {
    const size_t d = stride.size() == 1 ? 0 : static_cast<size_t>(i - 2);
    const int64_t extent = dilation[d].expect_int() * (weight.size(i) - 1) + 1;
    shape.push_back((x.size(i) + 2 * padding[d].expect_int() - extent) / stride[d].expect_int() +
                    1);
  }
  return at::empty(shape, x.options(), at::MemoryFormat::ChannelsLast);
}

Three meta_layer_norm(const Tensor& x, c10::SymIntArrayRef shape,
                      const std::optional<Tensor>& weight, const std::optional<Tensor>& bias,
                      double eps) {
  const Tensor mean = at::empty({0}, x.options());
  return {at::empty_like(x), mean, mean};
}

Three meta_batch_norm(const Tensor& x, const std::optional<Tensor>& weight,
                      const std::optional<Tensor>& bias, const std::optional<Tensor>& mean,
                      const std::optional<Tensor>& var, bool training, double momentum,
                      double eps) {
  const Tensor statistics = at::empty({x.size(1)}, x.options());
  return {at::empty_like(x), statistics, statistics};
}

Three meta_group_norm(const Tensor& x, const std::optional<Tensor>& weight,
                      const std::optional<Tensor>& bias, c10::SymInt n, c10::SymInt c,
                      c10::SymInt area, int64_t groups, double eps) {
  // Detects, without a GPU, a model that works only on CPUs.
  check(!weight || weight->scalar_type() == x.scalar_type(),
        "group_norm: CUDA's kernel wants one type for all");
  const Tensor statistics = at::empty({x.size(0), groups}, x.options());
  return {at::empty_like(x), statistics, statistics};
}

TORCH_LIBRARY_IMPL(aten, Meta, library) {
  library.impl("relu", meta_relu);
  library.impl("flip", meta_flip);
  library.impl("where.self_out", meta_where_out);
  library.impl("convolution_overrideable", meta_convolution);
  library.impl("native_layer_norm", meta_layer_norm);
  library.impl("native_batch_norm", meta_batch_norm);
  library.impl("native_group_norm", meta_group_norm);
}

}  // namespace
}  // namespace bv
