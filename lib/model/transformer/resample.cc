#include "lib/model/transformer/resample.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_pinv.h>

#include <algorithm>
#include <cmath>

namespace bv {

at::Tensor linear_resize_matrix(int64_t in, int64_t out, bool antialias) {
  const at::Tensor matrix = at::empty({out, in}, at::kDouble);
  double* row = matrix.data_ptr<double>();
  const double step = static_cast<double>(in) / static_cast<double>(out);
  const double radius = antialias ? std::max(step, 1.0) : 1.0;
  for (int64_t i = 0; i < out; ++i, row += in) {
    const double centre = (static_cast<double>(i) + 0.5) * step - 0.5;
    double sum = 0;
    for (int64_t k = 0; k < in; ++k) {
      row[k] = std::max(0.0, 1.0 - std::abs(static_cast<double>(k) - centre) / radius);
      sum += row[k];
    }
    for (int64_t k = 0; k < in; ++k) row[k] /= sum;  // the border cuts off a part of the triangle
  }
  return matrix;
}

at::Tensor kernel_resize_matrix(int64_t in, int64_t out) {
  return at::linalg_pinv(linear_resize_matrix(in, out, /*antialias=*/false).t());
}

at::Tensor resize_grid(const at::Tensor& grid, const at::Tensor& rows, const at::Tensor& columns) {
  const at::Tensor flat = grid.flatten(2);  // (h, w, c)
  const at::Tensor tall = rows.to(flat.options())
                              .matmul(flat.flatten(1))
                              .unflatten(1, {flat.size(1), flat.size(2)});  // (h', w, c)
  const at::Tensor both = columns.to(flat.options()).matmul(tall);          // (h', w', c)
  std::vector<int64_t> shape = grid.sizes().vec();
  shape[0] = rows.size(0);
  shape[1] = columns.size(0);
  return both.view(shape);
}

}  // namespace bv
