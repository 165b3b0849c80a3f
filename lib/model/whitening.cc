#include "lib/model/whitening.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lib/util/error.h"

namespace bv {
namespace {

constexpr int kMaxSweeps = 50;  // about ten are enough for matrices of this size

// Rotates the rows and columns p and q of the symmetric matrix a (n, n) so that a[p][q] becomes 0,
// and the columns p and q of v with them.
void rotate(std::vector<double>& a, std::vector<double>& v, int64_t n, int64_t p, int64_t q) {
  const double off = a[p * n + q];
  if (off == 0) return;
  const double theta = (a[q * n + q] - a[p * n + p]) / (2 * off);
  const double t = (theta >= 0 ? 1 : -1) / (std::abs(theta) + std::sqrt(theta * theta + 1));
  const double c = 1 / std::sqrt(t * t + 1), s = t * c;
  const auto turn = [&](double& x, double& y) {
    const double old = x;
    x = c * old - s * y;
    y = s * old + c * y;
  };
  for (int64_t k = 0; k < n; ++k) turn(a[k * n + p], a[k * n + q]);
  for (int64_t k = 0; k < n; ++k) turn(a[p * n + k], a[q * n + k]);
  for (int64_t k = 0; k < n; ++k) turn(v[k * n + p], v[k * n + q]);
}

// Diagonalizes the symmetric matrix a (n, n) and returns its eigenvectors, the columns of (n, n).
// Uses the cyclic Jacobi method: G. Golub, C. Van Loan, "Matrix Computations", section 8.5.
// LAPACK's signs and last bits depend on the CPU, and the ranks of a run may have different CPUs.
std::vector<double> diagonalize(std::vector<double>& a, int64_t n) {
  std::vector<double> v(static_cast<size_t>(n * n), 0.0);
  for (int64_t i = 0; i < n; ++i) v[i * n + i] = 1;
  for (int sweep = 0; sweep < kMaxSweeps; ++sweep) {
    double off = 0, all = 0;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        all += a[i * n + j] * a[i * n + j];
        if (i != j) off += a[i * n + j] * a[i * n + j];
      }
    }
    if (off <= 1e-30 * all) break;
    for (int64_t p = 0; p < n; ++p)
      for (int64_t q = p + 1; q < n; ++q) rotate(a, v, n, p, q);
  }
  return v;
}

}  // namespace

PatchCovariance::PatchCovariance(int64_t size, int64_t channels)
    : size_(size),
      channels_(channels),
      products_(static_cast<size_t>(size * size * channels * size * size * channels), 0.0) {}

void PatchCovariance::add(const at::Tensor& image) {
  check(image.dim() == 3 && image.size(2) == channels_ && image.scalar_type() == at::kFloat,
        "whitening: an image of another kind");
  const at::Tensor pixels = image.contiguous();
  const float* in = pixels.const_data_ptr<float>();
  const int64_t h = image.size(0), w = image.size(1), run = size_ * channels_, dim = size_ * run;
  std::vector<double> patch(static_cast<size_t>(dim));
  for (int64_t y = 0; y + size_ <= h; ++y) {
    for (int64_t x = 0; x + size_ <= w; ++x, ++patches_) {
      for (int64_t row = 0; row < size_; ++row) {
        const float* from = in + ((y + row) * w + x) * channels_;
        std::copy(from, from + run, patch.begin() + row * run);
      }
      for (int64_t i = 0; i < dim; ++i)
        for (int64_t j = i; j < dim; ++j) products_[i * dim + j] += patch[i] * patch[j];
    }
  }
}

at::Tensor PatchCovariance::filters(double eps) const {
  check(patches_ > 0, "whitening without a patch");
  const int64_t dim = size_ * size_ * channels_;
  std::vector<double> matrix(products_.size());
  for (int64_t i = 0; i < dim; ++i) {
    for (int64_t j = i; j < dim; ++j) {
      matrix[i * dim + j] = matrix[j * dim + i] =
          products_[i * dim + j] / static_cast<double>(patches_);
    }
  }
  const std::vector<double> vectors = diagonalize(matrix, dim);
  std::vector<int64_t> order(static_cast<size_t>(dim));
  std::iota(order.begin(), order.end(), 0);
  const auto value = [&](int64_t i) { return matrix[i * dim + i]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return value(a) > value(b); });
  double mean = 0;
  for (int64_t i = 0; i < dim; ++i) mean += value(i) / static_cast<double>(dim);
  const double added = mean > 0 ? eps * mean : 1;  // black images have no eigenvalue above 0
  const at::Tensor filters = at::empty({size_, size_, channels_, 2 * dim}, at::kFloat);
  float* out = filters.mutable_data_ptr<float>();
  for (int64_t f = 0; f < dim; ++f) {
    const int64_t column = order[f];
    const double scale = 1 / std::sqrt(std::max(value(column), 0.0) + added);
    for (int64_t i = 0; i < dim; ++i) {
      const auto weight = static_cast<float>(vectors[i * dim + column] * scale);
      out[i * 2 * dim + f] = weight;
      out[i * 2 * dim + dim + f] = -weight;
    }
  }
  return filters;
}

}  // namespace bv
