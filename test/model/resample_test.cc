// Resizing of grids compared with LibTorch's own interpolation, and the purpose of PI-resize.
#include "lib/model/transformer/resample.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

namespace bv::test {
namespace {

at::Tensor grid(int64_t h, int64_t w, int64_t c) {
  return at::randn({h, w, c}, at::detail::createCPUGenerator(5), at::kDouble);
}

TEST_CASE("linear resize is LibTorch's with half-pixel centres, with and without antialiasing") {
  for (const bool antialias : {false, true}) {
    for (const auto& [h, w, to_h, to_w] : std::vector<std::array<int64_t, 4>>{
             {7, 7, 5, 3}, {7, 7, 30, 8}, {4, 9, 4, 2}, {1, 3, 4, 1}}) {
      INFO(h << 'x' << w << " to " << to_h << 'x' << to_w << (antialias ? " antialiased" : ""));
      const at::Tensor x = grid(h, w, 3);
      const at::Tensor image = x.permute({2, 0, 1}).unsqueeze(0);
      const at::Tensor expected =
          antialias ? at::_upsample_bilinear2d_aa(image, {to_h, to_w}, /*align_corners=*/false)
                    : at::upsample_bilinear2d(image, {to_h, to_w}, /*align_corners=*/false);
      const at::Tensor y = resize_grid(x, linear_resize_matrix(h, to_h, antialias),
                                       linear_resize_matrix(w, to_w, antialias));
      CHECK(at::allclose(y, expected.squeeze(0).permute({1, 2, 0}), 1e-10, 1e-10));
    }
  }
}

TEST_CASE("PI-resize: the pseudo-inverse of the two-dimensional resize, side by side") {
  const at::Tensor kernel = grid(6, 4, 5);
  const at::Tensor rows = linear_resize_matrix(6, 9, false),
                   columns = linear_resize_matrix(4, 3, false);
  const at::Tensor whole = at::kron(rows, columns);  // (27, 24)
  const at::Tensor expected = at::linalg_pinv(whole.t()).matmul(kernel.flatten(0, 1));
  const at::Tensor y = resize_grid(kernel, kernel_resize_matrix(6, 9), kernel_resize_matrix(4, 3));
  CHECK(y.sizes() == at::IntArrayRef({9, 3, 5}));
  CHECK(at::allclose(y.flatten(0, 1), expected, 1e-10, 1e-10));
}

TEST_CASE(
    "PI-resize: the larger kernel gives on enlarged patches what the kernel gave on the patches") {
  const at::Tensor kernel = grid(8, 8, 2), patch = grid(8, 8, 1).squeeze(2);
  const at::Tensor enlarged = linear_resize_matrix(8, 13, false)
                                  .matmul(patch)
                                  .matmul(linear_resize_matrix(8, 20, false).t());
  const at::Tensor larger =
      resize_grid(kernel, kernel_resize_matrix(8, 13), kernel_resize_matrix(8, 20));
  const auto dot = [](const at::Tensor& k, const at::Tensor& p) {
    return (k * p.unsqueeze(2)).sum(at::IntArrayRef{0, 1});
  };
  CHECK(at::allclose(dot(larger, enlarged), dot(kernel, patch), 1e-9, 1e-9));
  CHECK(at::allclose(kernel_resize_matrix(8, 8), at::eye(8, at::kDouble), 1e-12, 1e-12));
}

TEST_CASE("a resized grid keeps its type and sends gradients back") {
  const at::Tensor x = grid(4, 4, 3).to(at::kFloat).unsqueeze(3).requires_grad_(true);
  const at::Tensor y = resize_grid(x, kernel_resize_matrix(4, 6), kernel_resize_matrix(4, 2));
  CHECK(y.scalar_type() == at::kFloat);
  CHECK(y.sizes() == at::IntArrayRef({6, 2, 3, 1}));
  y.sum().backward();
  CHECK(x.grad().any().item<bool>());
}

}  // namespace
}  // namespace bv::test
