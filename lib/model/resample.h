// Resizing of learned grids: FlexiViT's patch kernels and position embeddings (reference 9.6).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace bv {

// (out, in) float64: the matrix of a linear resize with half-pixel centres, as tf.image.resize
// ("bilinear" along one side) and jax.image.resize ("linear") have it. `antialias` widens the
// triangle when shrinking.
at::Tensor linear_resize_matrix(int64_t in, int64_t out, bool antialias);

// (out, in) float64: the pseudo-inverse of the transposed matrix of a resize without antialiasing.
// Kernels resized by it give on resized patches what they gave before ("PI-resize", Beyer et al.,
// "FlexiViT", 2023). The two-dimensional one is a product of two of these; where one side grows and
// the other shrinks it is singular, and the reference, which inverts the product in float32 without
// a cut-off, gets numbers of 1e8 there.
at::Tensor kernel_resize_matrix(int64_t in, int64_t out);

// Applies `rows` (h', h) and `columns` (w', w) to the grid (h, w, ...) float32: (h', w', ...), in
// the grid's type.
at::Tensor resize_grid(const at::Tensor& grid, const at::Tensor& rows, const at::Tensor& columns);

}  // namespace bv
