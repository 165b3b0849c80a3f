// How the blocks and threads of the group normalization kernels (group_norm.cu) divide the
// activations (n, pixels, c).
//
// A thread computes 8 adjacent channels and some pixels of one image. A block computes up to
// 2048 channels and a part of the pixels of one image.
#pragma once

#include <algorithm>

#include "lib/cuda/launch.h"
#include "lib/model/kernels/device/group_norm_pass.h"
#include "lib/util/bf16.h"

namespace bv::group_norm_cuda {

using namespace group_norm_parts;

constexpr int64_t kMostParts = 16;    // of an image
constexpr int64_t kLeastPixels = 24;  // of a part; with fewer, the table of sums is too large
constexpr int64_t kPixelsOfThread = 16;

// How the blocks divide the work: block (image * tiles + tile) * parts + part.
struct Tiling {
  int64_t n, pixels, part_pixels, parts;
  int c, lanes, rows, tiles;  // a block's threads are `lanes` octets of channels by `rows` pixels
  int groups;

  int64_t blocks() const { return n * tiles * parts; }
  // The number of floats in a table (n, parts, 2, c).
  int64_t sums() const { return n * parts * 2 * c; }
};

inline Tiling tiling_of(const GroupNormShape& s) {
  Tiling t{};
  t.n = s.n;
  t.pixels = s.pixels;
  t.c = static_cast<int>(s.c);
  t.groups = static_cast<int>(s.groups);
  const int octets = t.c / kOctet;
  t.tiles = (octets + kThreads - 1) / kThreads;
  t.lanes = (octets + t.tiles - 1) / t.tiles;
  t.rows = kThreads / t.lanes;
  const int64_t least = std::max<int64_t>(kLeastPixels, kPixelsOfThread * t.rows);
  const int64_t parts = std::clamp<int64_t>(s.pixels / least, 1, kMostParts);
  t.part_pixels = (s.pixels + parts - 1) / parts;
  t.parts = (s.pixels + t.part_pixels - 1) / t.part_pixels;
  return t;
}

// What a thread computes: every `rows`-th pixel of its part, starting at pixel `row`.
struct ThreadShare {
  int64_t image, part;
  int64_t first;    // index of the part's first pixel at the thread's first channel
  int channel;      // the first one
  int row, pixels;  // pixels of the part
  bool used;        // false for threads that have nothing to do
};

__device__ inline ThreadShare place_of(const Tiling& t, int64_t block) {
  ThreadShare at;
  const int64_t tile = block / t.parts % t.tiles;
  at.part = block % t.parts;
  at.image = block / t.parts / t.tiles;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % t.lanes;
  at.row = thread / t.lanes;
  at.channel = (static_cast<int>(tile) * t.lanes + lane) * kOctet;
  const int64_t begin = at.part * t.part_pixels, left = t.pixels - begin;
  at.pixels = static_cast<int>(left < t.part_pixels ? left : t.part_pixels);
  at.first = (at.image * t.pixels + begin) * t.c + at.channel;
  at.used = at.row < t.rows && at.channel < t.c;
  return at;
}

// The passes that compute sums start with the first image. Those that apply the sums start with
// the last one, which may still be in the cache. So they end with the image that the next
// convolution reads first.
__device__ inline ThreadShare place_in_sums(const Tiling& t) { return place_of(t, blockIdx.x); }
__device__ inline ThreadShare place_to_apply(const Tiling& t) {
  return place_of(t, gridDim.x - 1 - blockIdx.x);
}

template <class T>
using Octet = Pack<T, kOctet>;

template <class T>
__device__ inline Octet<T> octet(const T* from) {
  return pack_at<T, kOctet>(from);
}

// Calls f<N>(element, step) for N of the thread's pixels at a time, N = M or 1. `element` is the
// index of the first one, and `step` is the distance to the next.
template <int M, class F>
__device__ inline void for_pixels(const Tiling& t, const ThreadShare& at, const F& f) {
  if (!at.used) return;
  const int64_t step = static_cast<int64_t>(t.rows) * t.c;
  int64_t element = at.first + static_cast<int64_t>(at.row) * t.c;
  int left = (at.pixels - at.row + t.rows - 1) / t.rows;
  for (; left >= M; left -= M, element += M * step) f.template operator()<M>(element, step);
  for (; left > 0; --left, element += step) f.template operator()<1>(element, step);
}

// The first stride of the tree reduction over `rows`: the largest power of two below `rows`.
__device__ inline int first_half(int rows) {
  int half = 1;
  while (2 * half < rows) half *= 2;
  return rows > 1 ? half : 0;
}

}  // namespace bv::group_norm_cuda
