// The loops of Resizer: one output row at a time, in two passes. The order of the passes is
// TensorFlow's, because truncation turns a difference in the last bit into a whole grey level.
#include "lib/input/image/resizer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "lib/device/cpu_dispatch.h"
#include "lib/util/error.h"

namespace bv {
namespace {

using Float4 = float __attribute__((vector_size(16)));

// Row buffers have this much padding at their end, for Float4 access to pixels of 3 channels.
constexpr int64_t kSlack = 4;

[[gnu::always_inline]] inline Float4 load4(const float* from) {
  Float4 value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

[[gnu::always_inline]] inline void store4(float* to, Float4 value) {
  std::memcpy(to, &value, sizeof value);
}

template <class T>
[[gnu::always_inline]] inline T from_float(float value) {
  if constexpr (std::is_same_v<T, uint8_t>) {
    value = value < 0.0f ? 0.0f : value;
    value = value > 255.0f ? 255.0f : value;
    return static_cast<uint8_t>(static_cast<int32_t>(value));
  } else {
    return value;
  }
}

}  // namespace

constexpr std::array<const char*, 8> kMethodNames = {
    "nearest", "bilinear", "bicubic", "area", "lanczos3", "lanczos5", "gaussian", "mitchellcubic"};

std::vector<std::string> resize_method_names() {
  return {kMethodNames.begin(), kMethodNames.end()};
}

ResizeMethod resize_method(const std::string& name) {
  const auto found = std::find(kMethodNames.begin(), kMethodNames.end(), name);
  check(found != kMethodNames.end(), "no resize method '{}'", name);
  return static_cast<ResizeMethod>(found - kMethodNames.begin());
}

Resizer::Resizer(ResizeMethod method, bool antialias, Size from, Size to, int64_t channels)
    : from_(from), to_(to), channels_(channels) {
  const bool smooth =
      antialias && (method == ResizeMethod::bilinear || method == ResizeMethod::bicubic);
  if (method == ResizeMethod::nearest) {
    algorithm_ = Algorithm::nearest;
    pick_down_ = nearest_indices(from.height, to.height);
    pick_across_ = nearest_indices(from.width, to.width);
  } else if (method == ResizeMethod::bilinear && !smooth) {
    algorithm_ = Algorithm::lerp;
    lerp_down_ = lerps(from.height, to.height);
    lerp_across_ = lerps(from.width, to.width);
    for (auto* offsets : {&lerp_across_.lower, &lerp_across_.upper}) {
      for (int32_t& offset : *offsets) offset *= static_cast<int32_t>(channels);
    }
  } else {
    if (method == ResizeMethod::area) {
      algorithm_ = Algorithm::area;
      down_ = area_taps(from.height, to.height);
      across_ = area_taps(from.width, to.width);
      const auto per_output = [](int64_t in, int64_t out) {
        return static_cast<float>(in) / static_cast<float>(out);
      };
      scale_ = static_cast<float>(
          1.0 / (per_output(from.height, to.height) * per_output(from.width, to.width)));
    } else if (method == ResizeMethod::bicubic && !smooth) {
      algorithm_ = Algorithm::kernel;
      down_ = bicubic_taps(from.height, to.height);
      across_ = bicubic_taps(from.width, to.width);
    } else {
      algorithm_ = Algorithm::kernel;
      down_ = kernel_taps(method, antialias, from.height, to.height);
      across_ = kernel_taps(method, antialias, from.width, to.width);
    }
    for (int32_t& offset : across_.start) offset *= static_cast<int32_t>(channels);
  }
}

// kChannels is 0 if the number of channels is known only at run time.
struct Resizer::Kernels {
  // Converts `in` (width pixels) to float, and repeats its last pixel once after the end.
  template <class T>
  [[gnu::always_inline]] static void widen(const T* in, int64_t width, int64_t channels,
                                           float* out) {
    const int64_t n = width * channels;
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(in[i]);
    for (int64_t c = 0; c < channels; ++c) out[n + c] = out[n - channels + c];
  }

  template <int kChannels>
  [[gnu::always_inline]] static void lerp_across(const float* in, const Lerps& lerps,
                                                 int64_t channels, float* out) {
    const auto n = static_cast<int64_t>(lerps.part.size());
    const int32_t* lower = lerps.lower.data();
    const int32_t* upper = lerps.upper.data();
    const float* part = lerps.part.data();
    for (int64_t x = 0; x < n; ++x) {
      const float* left = in + lower[x];
      const float* right = in + upper[x];
      if constexpr (kChannels >= 3) {
        const Float4 a = load4(left);
        store4(out + x * kChannels, a + (load4(right) - a) * part[x]);
      } else {
        const int64_t m = kChannels > 0 ? kChannels : channels;
        for (int64_t c = 0; c < m; ++c) out[x * m + c] = left[c] + (right[c] - left[c]) * part[x];
      }
    }
  }

  template <int kChannels>
  [[gnu::always_inline]] static void sum_across(const float* in, const Taps& taps, int64_t channels,
                                                float* out) {
    const auto n = static_cast<int64_t>(taps.start.size());
    const float* weight = taps.weight.data();
    for (int64_t x = 0; x < n; ++x, weight += taps.span) {
      const float* pixel = in + taps.start[x];
      const int32_t count = taps.count[x];
      if constexpr (kChannels >= 3) {
        Float4 sum = load4(pixel) * weight[0];
        for (int32_t k = 1; k < count; ++k) sum += load4(pixel + k * kChannels) * weight[k];
        store4(out + x * kChannels, sum);
      } else {
        const int64_t m = kChannels > 0 ? kChannels : channels;
        for (int64_t c = 0; c < m; ++c) {
          float sum = pixel[c] * weight[0];
          for (int32_t k = 1; k < count; ++k) sum += pixel[k * m + c] * weight[k];
          out[x * m + c] = sum;
        }
      }
    }
  }

  template <class T>
  [[gnu::always_inline]] static void nearest(const Resizer& r, const T* in, int64_t row_stride,
                                             T* out) {
    for (int64_t y = 0; y < r.to_.height; ++y) {
      const T* row = in + r.pick_down_[y] * row_stride;
      for (int64_t x = 0; x < r.to_.width; ++x) {
        const T* pixel = row + r.pick_across_[x] * r.channels_;
        for (int64_t c = 0; c < r.channels_; ++c) *out++ = pixel[c];
      }
    }
  }

  // Across, then down. Neighbouring output rows share input rows, so the last two are kept.
  template <class T, int kChannels>
  [[gnu::always_inline]] static void lerp(const Resizer& r, const T* in, int64_t row_stride,
                                          T* out) {
    const int64_t n = r.to_.width * r.channels_;
    std::vector<float> wide((r.from_.width + 1) * r.channels_ + kSlack);
    std::vector<float> kept[2] = {std::vector<float>(n + kSlack), std::vector<float>(n + kSlack)};
    int64_t kept_row[2] = {-1, -1};
    for (int64_t y = 0; y < r.to_.height; ++y) {
      for (const int64_t row : {r.lerp_down_.lower[y], r.lerp_down_.upper[y]}) {
        if (kept_row[row & 1] == row) continue;
        kept_row[row & 1] = row;
        widen(in + row * row_stride, r.from_.width, r.channels_, wide.data());
        lerp_across<kChannels>(wide.data(), r.lerp_across_, r.channels_, kept[row & 1].data());
      }
      const float* __restrict top = kept[r.lerp_down_.lower[y] & 1].data();
      const float* __restrict bottom = kept[r.lerp_down_.upper[y] & 1].data();
      const float part = r.lerp_down_.part[y];
      T* __restrict to = out + y * n;
      for (int64_t i = 0; i < n; ++i) to[i] = from_float<T>(top[i] + (bottom[i] - top[i]) * part);
    }
  }

  // Across, then down. Neighbouring output rows share at most one input row, so the last is kept.
  template <class T, int kChannels>
  [[gnu::always_inline]] static void area(const Resizer& r, const T* in, int64_t row_stride,
                                          T* out) {
    const int64_t n = r.to_.width * r.channels_;
    std::vector<float> wide((r.from_.width + 1) * r.channels_ + kSlack);
    std::vector<float> kept(n + kSlack), sums(n);
    int64_t kept_row = -1;
    for (int64_t y = 0; y < r.to_.height; ++y) {
      const float* weight = &r.down_.weight[y * r.down_.span];
      float* __restrict sum = sums.data();
      for (int32_t k = 0; k < r.down_.count[y]; ++k) {
        const int64_t row = std::min<int64_t>(r.down_.start[y] + k, r.from_.height - 1);
        if (row != kept_row) {
          kept_row = row;
          widen(in + row * row_stride, r.from_.width, r.channels_, wide.data());
          sum_across<kChannels>(wide.data(), r.across_, r.channels_, kept.data());
        }
        const float* __restrict values = kept.data();
        const float w = weight[k];
        if (k == 0) {
          for (int64_t i = 0; i < n; ++i) sum[i] = values[i] * w;
        } else {
          for (int64_t i = 0; i < n; ++i) sum[i] += values[i] * w;
        }
      }
      T* __restrict to = out + y * n;
      for (int64_t i = 0; i < n; ++i) to[i] = from_float<T>(sum[i] * r.scale_);
    }
  }

  // Down, then across.
  template <class T, int kChannels>
  [[gnu::always_inline]] static void kernel(const Resizer& r, const T* in, int64_t row_stride,
                                            T* out) {
    const int64_t n = r.to_.width * r.channels_;
    const int64_t m = r.from_.width * r.channels_;
    std::vector<float> sums(m + kSlack), across(n + kSlack);
    for (int64_t y = 0; y < r.to_.height; ++y) {
      const float* weight = &r.down_.weight[y * r.down_.span];
      float* __restrict sum = sums.data();
      for (int32_t k = 0; k < r.down_.count[y]; ++k) {
        const T* __restrict row = in + (r.down_.start[y] + k) * row_stride;
        const float w = weight[k];
        if (k == 0) {
          for (int64_t i = 0; i < m; ++i) sum[i] = static_cast<float>(row[i]) * w;
        } else {
          for (int64_t i = 0; i < m; ++i) sum[i] += static_cast<float>(row[i]) * w;
        }
      }
      sum_across<kChannels>(sum, r.across_, r.channels_, across.data());
      const float* __restrict values = across.data();
      T* __restrict to = out + y * n;
      for (int64_t i = 0; i < n; ++i) to[i] = from_float<T>(values[i]);
    }
  }

  template <class T, int kChannels>
  static void run(const Resizer& r, const T* in, int64_t row_stride, T* out) {
    switch (r.algorithm_) {
      case Algorithm::nearest:
        return run_simd([&]()
                            __attribute__((always_inline)) { nearest<T>(r, in, row_stride, out); });
      case Algorithm::lerp:
        return run_simd([&]() __attribute__((always_inline)) {
          lerp<T, kChannels>(r, in, row_stride, out);
        });
      case Algorithm::area:
        return run_simd([&]() __attribute__((always_inline)) {
          area<T, kChannels>(r, in, row_stride, out);
        });
      case Algorithm::kernel:
        return run_simd([&]() __attribute__((always_inline)) {
          kernel<T, kChannels>(r, in, row_stride, out);
        });
    }
  }
};

template <class T>
void Resizer::run(const T* in, int64_t row_stride, T* out) const {
  switch (channels_) {
    case 1:
      return Kernels::run<T, 1>(*this, in, row_stride, out);
    case 3:
      return Kernels::run<T, 3>(*this, in, row_stride, out);
    case 4:
      return Kernels::run<T, 4>(*this, in, row_stride, out);
    default:
      return Kernels::run<T, 0>(*this, in, row_stride, out);
  }
}

template void Resizer::run(const uint8_t*, int64_t, uint8_t*) const;
template void Resizer::run(const float*, int64_t, float*) const;

}  // namespace bv
