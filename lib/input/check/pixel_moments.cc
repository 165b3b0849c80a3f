#include "lib/input/check/pixel_moments.h"

#include <array>
#include <cmath>
#include <cstdint>

namespace bv {
namespace {

constexpr double kWhite = 255;

// Counts every 8-bit value, so that no sum is rounded before the end.
PixelMoments moments_of_bytes(const uint8_t* values, int64_t count, int64_t stride) {
  std::array<int64_t, 256> found{};
  for (int64_t i = 0; i < count; ++i) ++found[values[i * stride]];
  PixelMoments all;
  all.count = static_cast<double>(count);
  for (size_t value = 0; value < found.size(); ++value)
    all.mean += static_cast<double>(found[value]) * static_cast<double>(value);
  all.mean /= all.count * kWhite;
  for (size_t value = 0; value < found.size(); ++value) {
    const double off = static_cast<double>(value) / kWhite - all.mean;
    all.squares += static_cast<double>(found[value]) * off * off;
  }
  return all;
}

PixelMoments moments_of_doubles(const double* values, int64_t count, int64_t stride) {
  PixelMoments all;
  all.count = static_cast<double>(count);
  for (int64_t i = 0; i < count; ++i) all.mean += values[i * stride];
  all.mean /= all.count;
  for (int64_t i = 0; i < count; ++i) {
    const double off = values[i * stride] - all.mean;
    all.squares += off * off;
  }
  return all;
}

}  // namespace

// As in T. F. Chan, G. H. Golub and R. J. LeVeque, "Updating formulae and a pairwise algorithm for
// computing sample variances", 1979.
void PixelMoments::merge(const PixelMoments& other) {
  if (other.count == 0) return;
  const double both = count + other.count, off = other.mean - mean;
  mean += off * (other.count / both);
  squares += other.squares + off * off * (count * (other.count / both));
  count = both;
}

double PixelMoments::deviation() const { return count == 0 ? 0 : std::sqrt(squares / count); }

std::vector<PixelMoments> pixel_moments(const at::Tensor& image) {
  const int64_t channels = image.dim() == 3 ? image.size(2) : 1;
  std::vector<PixelMoments> all(channels);
  if (image.numel() == 0) return all;
  const int64_t count = image.numel() / channels;
  if (image.scalar_type() == at::kByte) {
    const at::Tensor dense = image.contiguous();
    for (int64_t c = 0; c < channels; ++c)
      all[c] = moments_of_bytes(dense.const_data_ptr<uint8_t>() + c, count, channels);
    return all;
  }
  const at::Tensor dense = image.to(at::kDouble).contiguous();
  for (int64_t c = 0; c < channels; ++c)
    all[c] = moments_of_doubles(dense.const_data_ptr<double>() + c, count, channels);
  return all;
}

}  // namespace bv
