// Whitening of image patches: the fixed filters of a first layer whose outputs are not correlated
// and have the same variance.
//
// Follows D. Page, "How to train your ResNet 8: Bag of tricks" (2019), and init_whitening_conv in
// airbench94.py of K. Jordan, "94% on CIFAR-10 in 3.29 Seconds on a Single GPU" (2024).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace bv {

// Sums the products of the pixels of all patches of `size` x `size` pixels. The results are the
// same on every CPU.
class PatchCovariance {
 public:
  PatchCovariance(int64_t size, int64_t channels);
  // image: (h, w, channels) float32 on the CPU, at least as large as a patch.
  void add(const at::Tensor& image);
  int64_t patches() const { return patches_; }
  // Returns the filters, (size, size, channels, 2 * dim) float32 with dim = size * size * channels.
  // Filter i < dim is the i-th eigenvector of the mean product matrix, largest eigenvalue first,
  // divided by the square root of its eigenvalue + eps * the mean eigenvalue. Filter dim + i is the
  // same times -1, so that a ReLU after the layer loses nothing. Requires patches() > 0.
  at::Tensor filters(double eps) const;

 private:
  int64_t size_, channels_, patches_ = 0;
  std::vector<double> products_;  // (dim, dim), of which the part with column >= row is used
};

}  // namespace bv
