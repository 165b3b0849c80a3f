// The filters of a whitening layer, and the identity initialiser.
#include "lib/model/whitening.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "lib/model/init.h"

namespace bv::test {
namespace {

at::Tensor float_noise(at::IntArrayRef shape, uint64_t seed) {
  return at::randn(shape, at::detail::createCPUGenerator(seed), at::kFloat);
}

// Returns the patches of an image, (patches, size * size * c), in the order of the filters.
at::Tensor patches_of(const at::Tensor& image, int64_t size) {
  return image.unfold(0, size, 1)
      .unfold(1, size, 1)
      .permute({0, 1, 3, 4, 2})
      .flatten(2)
      .flatten(0, 1);
}

TEST_CASE("whitening: outputs are not correlated and of equal variance") {
  // Colours and neighbours depend on each other.
  std::vector<at::Tensor> images;
  PatchCovariance covariance(2, 3);
  for (uint64_t i = 0; i < 20; ++i) {
    const at::Tensor grey = float_noise({9, 11, 1}, i), colour = float_noise({9, 11, 3}, 100 + i);
    images.push_back(
        at::avg_pool2d((2 * grey + colour).permute({2, 0, 1}), 2, 1).permute({1, 2, 0}));
    covariance.add(images.back());
  }
  CHECK(covariance.patches() == 20 * 7 * 9);
  const at::Tensor filters = covariance.filters(1e-12);
  REQUIRE(filters.sizes() == at::IntArrayRef({2, 2, 3, 24}));
  const at::Tensor matrix = filters.reshape({12, 24}).to(at::kDouble);
  CHECK(matrix.narrow(1, 12, 12).equal(-matrix.narrow(1, 0, 12)));
  std::vector<at::Tensor> parts;
  for (const at::Tensor& image : images) parts.push_back(patches_of(image, 2));
  const at::Tensor y = at::cat(parts).to(at::kDouble).matmul(matrix.narrow(1, 0, 12));
  const at::Tensor products = y.t().matmul(y) / y.size(0);
  CHECK(at::allclose(products, at::eye(12, at::kDouble), 0, 1e-5));
  // The same eigenvalues as LAPACK's, the largest one first: filter i has the norm 1 / sqrt(value).
  const at::Tensor x = at::cat(parts).to(at::kDouble);
  const at::Tensor values = at::linalg_eigvalsh(x.t().matmul(x) / x.size(0)).flip({0});
  CHECK(at::allclose(matrix.narrow(1, 0, 12).norm(2, {0}), values.rsqrt(), 1e-6));
}

TEST_CASE("whitening: eps is a share of the mean eigenvalue, and black images do no harm") {
  PatchCovariance covariance(2, 1);
  covariance.add(at::full({2, 2, 1}, 3.0));  // one patch: eigenvalues 36, 0, 0, 0
  const at::Tensor norms = covariance.filters(0.5).reshape({4, 8}).norm(2, {0});
  CHECK(norms[0].item<double>() == Approx(1 / std::sqrt(36 + 4.5)));
  CHECK(norms[3].item<double>() == Approx(1 / std::sqrt(4.5)));
  PatchCovariance black(2, 1);
  black.add(at::zeros({5, 5, 1}));
  CHECK(black.filters(5e-4).isfinite().all().item<bool>());
}

TEST_CASE("identity: a convolution passes on the channels that it has room for") {
  for (const auto& [in, out] : {std::pair<int64_t, int64_t>{5, 8}, {8, 5}}) {
    at::Tensor kernel = at::empty({3, 3, in, out});
    identity(he_normal(9 * in))(kernel, 7);
    const at::Tensor x = float_noise({2, in, 6, 7}, 1);
    const at::Tensor y = at::conv2d(x, kernel.permute({3, 2, 0, 1}).contiguous(), {}, 1, 1);
    const int64_t kept = std::min(in, out);
    CHECK(y.narrow(1, 0, kept).equal(x.narrow(1, 0, kept)));
    if (out > in) {
      at::Tensor rest = at::empty({3, 3, in, out});
      he_normal(9 * in)(rest, 7);
      CHECK(kernel.narrow(3, in, out - in).equal(rest.narrow(3, in, out - in)));
    }
  }
}

}  // namespace
}  // namespace bv::test
