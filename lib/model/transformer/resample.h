// Resizing of learned grids: position embeddings and FlexiViT's patch kernels (big_vision's
// models/proj/flexi/vit.py, `resample_patchemb`, and models/vit.py, `resample_posemb`).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace bv {

// Returns the matrix (out, in) float64 of a linear resize with half-pixel centres, as in
// tf.image.resize ("bilinear", along one side) and jax.image.resize ("linear"). With `antialias`
// the triangle filter widens when the grid shrinks.
at::Tensor linear_resize_matrix(int64_t in, int64_t out, bool antialias);

// Returns the matrix (out, in) float64 that resizes a patch kernel along one side: the
// pseudo-inverse of the transposed matrix of a resize without antialiasing ("PI-resize", Beyer et
// al., "FlexiViT", 2023). On resized patches the resized kernel gives what the original kernel
// gives on the original patches.
//
// Along two sides the resize is a product of two such matrices. big_vision instead inverts the
// product in float32 without a cut-off. If one side grows and the other shrinks, that product is
// singular, and big_vision's kernels then have values of 1e8.
at::Tensor kernel_resize_matrix(int64_t in, int64_t out);

// Applies `rows` (h', h) and `columns` (w', w) to a float32 grid (h, w, ...). Returns (h', w', ...)
// float32.
at::Tensor resize_grid(const at::Tensor& grid, const at::Tensor& rows, const at::Tensor& columns);

}  // namespace bv
