#include "lib/evals/common/least_squares.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cholesky_solve.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/linalg_cholesky_ex.h>
#include <ATen/ops/linalg_pinv.h>
#include <ATen/ops/tensor.h>

#include <cmath>

namespace bv {
namespace {

constexpr double kStdOffset = 1e-5;
constexpr double kBias = 100.0;  // large, so that it is almost unregularized

}  // namespace

LeastSquares::LeastSquares(const at::Tensor& x, const at::Tensor& y, int64_t classes) {
  const at::Tensor wide = x.to(at::kDouble);
  mean_ = wide.mean(0, /*keepdim=*/true);
  std_ = wide.std(0, /*unbiased=*/false, /*keepdim=*/true).add_(kStdOffset);
  x_ = standardised(x);
  y_ = at::full({x.size(0), classes}, -1.0, at::kDouble);
  y_.scatter_(1, y.unsqueeze(1), 1.0);
  gram_ = x_.size(0) >= x_.size(1) ? x_.t().mm(x_) : x_.mm(x_.t());
}

at::Tensor LeastSquares::standardised(const at::Tensor& x) const {
  return at::cat({(x.to(at::kDouble) - mean_) / std_, at::full({x.size(0), 1}, kBias, at::kDouble)},
                 1);
}

at::Tensor LeastSquares::weights(double l2) const {
  const bool many = x_.size(0) >= x_.size(1);
  const at::Tensor right = many ? x_.t().mm(y_) : y_;
  const at::Tensor left = gram_ + l2 * at::eye(gram_.size(0), at::kDouble);
  const auto [root, info] = at::linalg_cholesky_ex(left);
  at::Tensor solved;
  if (info.item<int>() == 0) {
    solved = at::cholesky_solve(right, root);
  } else if (left.isfinite().all().item<bool>()) {  // singular: l2 is almost 0
    solved = at::linalg_pinv(left, 1e-15, /*hermitian=*/true).mm(right);
  } else {
    solved = at::full_like(right, std::nan(""));
  }
  return many ? solved : x_.t().mm(solved);
}

at::Tensor LeastSquares::predict(const at::Tensor& x, const at::Tensor& weights) const {
  return standardised(x).mm(weights);
}

std::vector<std::vector<int64_t>> permuted_classes(const at::Tensor& labels, int64_t classes,
                                                   NumpyRng rng) {
  std::vector<std::vector<int64_t>> members(classes);
  const at::Tensor dense = labels.contiguous();
  for (int64_t i = 0; i < dense.numel(); ++i) {
    members.at(dense.const_data_ptr<int64_t>()[i]).push_back(i);
  }
  for (auto& each : members) rng.permute(each);
  return members;
}

at::Tensor take_shots(const std::vector<std::vector<int64_t>>& classes, int64_t shots) {
  std::vector<int64_t> taken;
  for (const auto& members : classes) {
    const auto n = std::min<int64_t>(shots, std::ssize(members));
    taken.insert(taken.end(), members.begin(), members.begin() + n);
  }
  return at::tensor(taken, at::kLong);
}

}  // namespace bv
