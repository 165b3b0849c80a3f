// The transforms of winograd_conv.cc, with vectors of 16 channels. S and T are float or BFloat16: S
// is the type of images, T that of points. An image is cut into tiles of 2x2 outputs; each needs a
// patch of 4x4 inputs. A tile's transform has 16 numbers a channel, its "points". Arrays of points
// are (16, tiles, channels); `stride` is the distance from one point to the next.
#pragma once

#include <algorithm>
#include <cstdint>

#include "lib/device/float_lanes.h"
#include "lib/model/kernels/transpose.h"

namespace bv::winograd {

constexpr int64_t kPoints = 16;

// n images of h x w pixels. Where h or w is odd, the last tiles reach over the border.
struct TileGrid {
  int64_t n, h, w;
  int64_t rows() const { return (h + 1) / 2; }
  int64_t columns() const { return (w + 1) / 2; }
  int64_t count() const { return n * rows() * columns(); }
};

// A part of an array: `count` tiles from the tile `first` on, and `width` channels from the channel
// `channel` on. The whole array has `channels` channels.
struct TilePart {
  int64_t first, count;
  int64_t channel, width, channels;
};

// Where a tile's pixels are. A pixel outside of the image gets the pointer `outside`.
template <int kSize, class T>
[[gnu::always_inline]] inline void find_pixels(const TileGrid& s, T* image, int64_t channels,
                                               int64_t tile, int64_t border, T* outside,
                                               T* (&pixels)[kSize * kSize]) {
  const int64_t left = 2 * (tile % s.columns()) - border;
  const int64_t row = tile / s.columns(), top = 2 * (row % s.rows()) - border;
  T* const base = image + (row / s.rows()) * s.h * s.w * channels;
  for (int64_t i = 0; i < kSize; ++i) {
    for (int64_t j = 0; j < kSize; ++j) {
      const int64_t y = top + i, x = left + j;
      const bool inside = y >= 0 && y < s.h && x >= 0 && x < s.w;
      pixels[i * kSize + j] = inside ? base + (y * s.w + x) * channels : outside;
    }
  }
}

// One dimension of B^T d B.
template <class Floats>
[[gnu::always_inline]] inline void patch_points(Floats& a, Floats& b, Floats& c, Floats& d) {
  const Floats second = b + c, third = c - b, last = b - d;
  a = a - c;
  b = second;
  c = third;
  d = last;
}

// points = B^T d B of the 4x4 patches d of x (n, h, w, channels). zeros: `channels` zeros.
template <class S, class T>
void transform_patches(const TileGrid& s, const S* x, const TilePart& part, const S* zeros,
                       int64_t stride, T* points) {
  simd::dispatch([&](auto registers) __attribute__((always_inline)) {
    using Floats = typename decltype(registers)::Floats;
    for (int64_t i = 0; i < part.count; ++i) {
      const S* pixels[16];
      find_pixels<4>(s, x, part.channels, part.first + i, /*border=*/1, zeros, pixels);
      for (int64_t c = 0; c < part.width; c += simd::kLanes) {
        Floats d[16];
#pragma GCC unroll 16
        for (int p = 0; p < 16; ++p) simd::load(pixels[p] + part.channel + c, d[p]);
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) patch_points(d[j], d[4 + j], d[8 + j], d[12 + j]);
#pragma GCC unroll 4
        for (int j = 0; j < 16; j += 4) patch_points(d[j], d[j + 1], d[j + 2], d[j + 3]);
        T* const to = points + i * part.width + c;
#pragma GCC unroll 16
        for (int p = 0; p < 16; ++p) simd::store(d[p], to + p * stride);
      }
    }
  });
}

// Transposes 16 channels, from `channel` on, of 16 tiles: to[c] holds channel c of pixel `at` of
// each tile. from[i][at] is that pixel of tile i.
template <class S, class Floats>
[[gnu::always_inline]] inline void turn(const S* const (&from)[simd::kLanes][4], int64_t at,
                                        int64_t channel, Floats (&to)[simd::kLanes]) {
  Floats rows[simd::kLanes];
  for (int64_t i = 0; i < simd::kLanes; ++i) simd::load(from[i][at] + channel, rows[i]);
  simd::transpose_blocks(
      rows, sizeof(Floats), simd::kLanes, simd::kLanes,
      [&](int64_t column, int64_t row, const simd::Words8& values, int64_t count)
          __attribute__((always_inline)) {
            simd::store_words(values, count, reinterpret_cast<char*>(&to[column]) + 4 * row);
          });
}

// points (16, width, ld) = A g A^T of the 2x2 tiles g of the gradient (n, h, w, channels). Tiles
// are columns here; those from part.count to the next multiple of 16 are 0. zeros: `channels`
// zeros.
template <class S, class T>
void transform_gradients(const TileGrid& s, const S* grad, const TilePart& part, const S* zeros,
                         int64_t ld, int64_t stride, T* points) {
  simd::dispatch([&](auto registers) __attribute__((always_inline)) {
    using Floats = typename decltype(registers)::Floats;
    for (int64_t i = 0; i < part.count; i += simd::kLanes) {
      const S* pixels[simd::kLanes][4];
      for (int64_t j = 0; j < simd::kLanes; ++j) {
        std::fill(pixels[j], pixels[j] + 4, zeros);
        if (i + j < part.count)
          find_pixels<2>(s, grad, part.channels, part.first + i + j, /*border=*/0, zeros,
                         pixels[j]);
      }
      for (int64_t c = 0; c < part.width; c += simd::kLanes) {
        Floats turned[4][simd::kLanes];
        for (int64_t p = 0; p < 4; ++p) turn(pixels, p, part.channel + c, turned[p]);
        for (int64_t k = 0; k < simd::kLanes; ++k) {
          T* const to = points + (c + k) * ld + i;
          const Floats &a = turned[0][k], &b = turned[1][k], &d = turned[2][k], &e = turned[3][k];
          const Floats left[4] = {a, a + d, a - d, -d}, right[4] = {b, b + e, b - e, -e};
#pragma GCC unroll 4
          for (int r = 0; r < 4; ++r) {
            simd::store(left[r], to + (4 * r) * stride);
            simd::store(left[r] + right[r], to + (4 * r + 1) * stride);
            simd::store(left[r] - right[r], to + (4 * r + 2) * stride);
            simd::store(-right[r], to + (4 * r + 3) * stride);
          }
        }
      }
    }
  });
}

// y (n, h, w, channels) = A^T m A of the points m, plus a bias (channels) if there is one.
// sink: `channels` numbers that take what lies outside of the image.
template <class S>
void store_outputs(const TileGrid& s, const float* points, int64_t stride, const TilePart& part,
                   const float* bias, S* sink, S* y) {
  simd::dispatch([&](auto registers) __attribute__((always_inline)) {
    using Floats = typename decltype(registers)::Floats;
    for (int64_t i = 0; i < part.count; ++i) {
      S* pixels[4];
      find_pixels<2>(s, y, part.channels, part.first + i, /*border=*/0, sink, pixels);
      for (int64_t c = 0; c < part.width; c += simd::kLanes) {
        const float* const from = points + i * part.width + c;
        Floats rows[8], start{};
        if (bias != nullptr) simd::load(bias + part.channel + c, start);
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) {
          Floats m[4];
#pragma GCC unroll 4
          for (int r = 0; r < 4; ++r) simd::load(from + (4 * r + j) * stride, m[r]);
          rows[j] = m[0] + m[1] + m[2];
          rows[4 + j] = m[1] - m[2] - m[3];
        }
#pragma GCC unroll 2
        for (int r = 0; r < 2; ++r) {
          const Floats* const m = rows + 4 * r;
          simd::store(m[0] + m[1] + m[2] + start, pixels[2 * r] + part.channel + c);
          simd::store(m[1] - m[2] - m[3] + start, pixels[2 * r + 1] + part.channel + c);
        }
      }
    }
  });
}

// One dimension of G g G^T.
template <class Floats>
[[gnu::always_inline]] inline void filter_points(const Floats& a, const Floats& b, const Floats& c,
                                                 Floats* to, int64_t stride) {
  to[0] = a;
  to[stride] = (a + b + c) * 0.5f;
  to[2 * stride] = (a - b + c) * 0.5f;
  to[3 * stride] = c;
}

// points (16, width) = G g G^T of the 3x3 filters g. Tap t is at taps + t * stride. With `turned`
// the filters are turned by 180 degrees: tap t is at taps + (8 - t) * stride.
template <class S>
void transform_filters(const S* taps, int64_t stride, bool turned, int64_t width, float* points) {
  simd::dispatch([&](auto registers) __attribute__((always_inline)) {
    using Floats = typename decltype(registers)::Floats;
    for (int64_t c = 0; c < width; c += simd::kLanes) {
      Floats g[9], rows[12], all[16];
      for (int t = 0; t < 9; ++t) simd::load(taps + (turned ? 8 - t : t) * stride + c, g[t]);
      for (int j = 0; j < 3; ++j) filter_points(g[j], g[3 + j], g[6 + j], rows + j, 3);
      for (int r = 0; r < 4; ++r)
        filter_points(rows[3 * r], rows[3 * r + 1], rows[3 * r + 2], all + 4 * r, 1);
      for (int p = 0; p < kPoints; ++p) simd::store(all[p], points + p * width + c);
    }
  });
}

// One dimension of G^T u G.
template <class Floats>
[[gnu::always_inline]] inline void filter_gradients(const Floats* u, int64_t stride, Floats& a,
                                                    Floats& b, Floats& c) {
  const Floats sum = (u[stride] + u[2 * stride]) * 0.5f;
  a = u[0] + sum;
  b = (u[stride] - u[2 * stride]) * 0.5f;
  c = sum + u[3 * stride];
}

// grads (9 taps, distance `to_stride`) = G^T u G of the points u (distance `stride`) of `width`
// channels.
inline void store_filter_gradients(const float* points, int64_t stride, int64_t width,
                                   int64_t to_stride, float* grads) {
  simd::dispatch([&](auto registers) __attribute__((always_inline)) {
    using Floats = typename decltype(registers)::Floats;
    for (int64_t c = 0; c < width; c += simd::kLanes) {
      Floats u[16], rows[12], g[9];
      for (int p = 0; p < kPoints; ++p) simd::load(points + p * stride + c, u[p]);
      for (int j = 0; j < 4; ++j) filter_gradients(u + j, 4, rows[j], rows[4 + j], rows[8 + j]);
      for (int r = 0; r < 3; ++r)
        filter_gradients(rows + 4 * r, 1, g[3 * r], g[3 * r + 1], g[3 * r + 2]);
      for (int t = 0; t < 9; ++t) simd::store(g[t], grads + t * to_stride + c);
    }
  });
}

}  // namespace bv::winograd
