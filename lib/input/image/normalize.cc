#include "lib/input/image/normalize.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <limits>

#include "lib/device/cpu_dispatch.h"

namespace bv {
namespace {

// The per-channel numbers, repeated often enough to load whole SIMD vectors.
struct Tiles {
  std::vector<float> low, range;
};

Tiles tile(const Normalization& normalization) {
  constexpr size_t kValues = 128;
  const size_t channels = normalization.low.size();
  const size_t count = (kValues + channels - 1) / channels * channels;
  Tiles tiles = {std::vector<float>(count), std::vector<float>(count)};
  for (size_t i = 0; i < count; i += channels) {
    for (size_t c = 0; c < channels; ++c) {
      tiles.low[i + c] = normalization.low[c];
      tiles.range[i + c] = normalization.range[c];
    }
  }
  return tiles;
}

template <class T>
[[gnu::always_inline]] inline void normalize_some(const T* __restrict in, float* __restrict out,
                                                  int64_t n, const float* __restrict low,
                                                  const float* __restrict range, float scale,
                                                  float offset, float least, float most) {
  for (int64_t i = 0; i < n; ++i) {
    float value = (static_cast<float>(in[i]) - low[i]) / range[i] * scale + offset;
    value = value > most ? most : value;
    value = value < least ? least : value;
    out[i] = value;
  }
}

// This divides for uint8 too: in measurements, a look-up table of 256 results was slower than
// vectorized divisions.
template <class T>
void normalize_all(const T* in, float* out, int64_t n, const Normalization& normalization) {
  const Tiles tiles = tile(normalization);
  const auto step = static_cast<int64_t>(tiles.low.size());
  const float infinity = std::numeric_limits<float>::infinity();
  const float least = normalization.clip ? normalization.clip_min : -infinity;
  const float most = normalization.clip ? normalization.clip_max : infinity;
  run_simd([&]() __attribute__((always_inline)) {
    for (int64_t i = 0; i < n; i += step) {
      normalize_some(in + i, out + i, std::min(step, n - i), tiles.low.data(), tiles.range.data(),
                     normalization.scale, normalization.offset, least, most);
    }
  });
}

}  // namespace

at::Tensor normalize(const at::Tensor& x, const Normalization& normalization) {
  const at::Tensor in =
      x.scalar_type() == at::kByte ? x.contiguous() : x.to(at::kFloat).contiguous();
  at::Tensor out = at::empty(in.sizes(), in.options().dtype(at::kFloat));
  float* values = out.mutable_data_ptr<float>();
  if (in.scalar_type() == at::kByte) {
    normalize_all(in.const_data_ptr<uint8_t>(), values, in.numel(), normalization);
  } else {
    normalize_all(in.const_data_ptr<float>(), values, in.numel(), normalization);
  }
  return out;
}

}  // namespace bv
