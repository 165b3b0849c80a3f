#include "lib/model/kernels/winograd_conv.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <optional>

#include "lib/device/plain_kernels.h"
#include "lib/model/kernels/channels_last.h"
#include "lib/model/kernels/conv_function.h"
#include "lib/model/kernels/small_products.h"
#include "lib/model/kernels/transpose.h"
#include "lib/model/kernels/winograd_parts.h"

namespace bv {
namespace {

using c10::BFloat16;
using simd::kLanes;
using winograd::kPoints;
using winograd::store_filter_gradients;
using winograd::store_outputs;
using winograd::TileGrid;
using winograd::transform_filters;
using winograd::transform_gradients;
using winograd::transform_patches;

// Whether `channels` can be divided into blocks that are wide enough for fast products.
bool has_wide_blocks(int64_t channels) {
  return channels % kLanes == 0 && (channels <= 128 || block_width(channels, 128) >= 64);
}

// The minimum tiles per image. With fewer, the filter transforms cost more than the products save.
// The choice must not depend on the number of images: one process and several would then round
// differently.
constexpr int64_t kLeastTiles = 4;
// With few channels, the transforms cost more than the products save. Also, in small networks some
// weights have gradients of exactly 0, because their input activations are all 0. Here, such a
// gradient would be a sum of rounding errors, which Adam turns into an update.
constexpr int64_t kLeastChannels = 64;
constexpr int64_t kOutputs = 128;  // channels of a block of outputs, at most

// The stride between points of `count` numbers each. Without the added padding, equal indices of
// all points would often map to the same cache set.
int64_t point_stride(int64_t count) { return count + 2 * kLanes; }

// Tiles per block: its inputs' points should stay in the L2 cache.
int64_t block_tiles(int64_t channels) { return std::clamp<int64_t>(8192 / channels, 32, 128); }

TileGrid tiles_of(const at::Tensor& x) { return {x.size(0), x.size(2), x.size(3)}; }

// In the templates S is the type of images, and T that of points and products.

template <class T>
T* take_zeros(ThreadMemory& memory, int64_t count) {
  T* const all = memory.take<T>(count);
  std::fill(all, all + count, T(0.0f));
  return all;
}

// Returns the points of filters `taps` (3, 3, rows, columns), of type T, as the right operands of
// products: (blocks of columns, 16, rows, block).
template <class T>
at::Tensor filter_points_of(const at::Tensor& taps, bool turned) {
  const int64_t rows = taps.size(2), columns = taps.size(3), width = block_width(columns, kOutputs);
  const at::Tensor all = at::empty({columns / width, kPoints, rows, width}, taps.options());
  const T* const from = taps.const_data_ptr<T>();
  T* const to = all.data_ptr<T>();
  at::parallel_for(0, columns / width * (rows / 2), 8, [&](int64_t begin, int64_t end) {
    ThreadMemory memory;
    auto* const points = memory.take<float>(2 * kPoints * width);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t block = i / (rows / 2), row = 2 * (i % (rows / 2));
      for (int64_t r = 0; r < 2; ++r)
        transform_filters(from + (row + r) * columns + block * width, rows * columns, turned, width,
                          points + r * kPoints * width);
      for (int64_t p = 0; p < kPoints; ++p)
        store_row_pair(points + p * width, points + (kPoints + p) * width, width,
                       to + ((block * kPoints + p) * rows + row) * width);
    }
  });
  return all;
}

// y = the convolution of x (n, h, w, in) with filters whose points are `filters`.
template <class S, class T>
void winograd_convolve(const at::Tensor& x, const at::Tensor& filters, const float* bias,
                       const at::Tensor& y) {
  const TileGrid s = tiles_of(x);
  const int64_t in = x.size(1), out = y.size(1), width = filters.size(3);
  const int64_t block = block_tiles(in);
  const S* const from = x.const_data_ptr<S>();
  const T* const weights = filters.const_data_ptr<T>();
  S* const to = y.data_ptr<S>();
  at::parallel_for(0, divided_up(s.count(), block), 1, [&](int64_t begin, int64_t end) {
    const AmxUse use;
    ThreadMemory memory;
    const int64_t stride = point_stride(block * in), sums_stride = point_stride(block * width);
    T* const points = memory.take<T>(kPoints * stride);
    auto* const sums = memory.take<float>(kPoints * sums_stride);
    const S* const nothing = take_zeros<S>(memory, in);
    S* const sink = memory.take<S>(out);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i * block, count = std::min(block, s.count() - first);
      transform_patches(s, from, {first, count, 0, in, in}, nothing, stride, points);
      for (int64_t k = 0; k < out / width; ++k) {
        for (int64_t p = 0; p < kPoints; ++p)
          multiply<T>(count, width, in, points + p * stride, in,
                      weights + (k * kPoints + p) * in * width, width, sums + p * sums_stride,
                      width);
        store_outputs(s, sums, sums_stride, {first, count, k * width, width, out}, bias, sink, to);
      }
    }
  });
}

// How the sum for the kernel gradient is divided into pieces: blocks of output and of input
// channels, and ranges of tiles. It depends only on the sizes, so the result does not depend on the
// number of threads.
constexpr int64_t kTiles = 64;  // tiles of a product

struct Pieces {
  int64_t out, in;  // channels of a block
  int64_t out_blocks, in_blocks, ranges, tiles;

  Pieces(const TileGrid& s, int64_t all_out, int64_t all_in)
      : out(block_width(all_out, 128)),
        in(block_width(all_in, 128)),
        out_blocks(all_out / out),
        in_blocks(all_in / in) {
    const int64_t most = divided_up(s.count(), 16 * kTiles);
    ranges = std::clamp<int64_t>(32 / (out_blocks * in_blocks), 1, most);
    tiles = divided_up(divided_up(s.count(), ranges), kTiles) * kTiles;
    ranges = divided_up(s.count(), tiles);
  }
  int64_t count() const { return ranges * out_blocks * in_blocks; }
};

// Computes the pieces of the kernel gradient one after the other.
template <class S, class T>
class KernelGradient {
 public:
  KernelGradient(const TileGrid& s, const Pieces& pieces, int64_t all_out, int64_t all_in)
      : s_(s),
        pieces_(pieces),
        all_out_(all_out),
        all_in_(all_in),
        patch_stride_(point_stride(kTiles * pieces.in)),
        grad_stride_(point_stride(kTiles * pieces.out)),
        sums_stride_(point_stride(pieces.out * pieces.in)) {
    patches_ = memory_.take<T>(kPoints * patch_stride_);
    if (kPairs<T>) pairs_ = memory_.take<T>(kTiles * pieces.in);
    grads_ = memory_.take<T>(kPoints * grad_stride_);
    sums_ = memory_.take<float>(kPoints * sums_stride_);
    nothing_ = take_zeros<S>(memory_, std::max(all_out, all_in));
  }

  // Writes its part of `all` (ranges, out, 9, in).
  void run(const S* x, const S* grad, int64_t piece, float* all) {
    const int64_t in = piece % pieces_.in_blocks * pieces_.in;
    const int64_t out = piece / pieces_.in_blocks % pieces_.out_blocks * pieces_.out;
    const int64_t range = piece / (pieces_.in_blocks * pieces_.out_blocks);
    const int64_t first = range * pieces_.tiles;
    const int64_t last = std::min(first + pieces_.tiles, s_.count());
    for (int64_t i = first; i < last; i += kTiles) {
      const int64_t count = std::min(kTiles, last - i);
      transform_patches(s_, x, {i, count, in, pieces_.in, all_in_}, nothing_, patch_stride_,
                        patches_);
      transform_gradients(s_, grad, {i, count, out, pieces_.out, all_out_}, nothing_, kTiles,
                          grad_stride_, grads_);
      for (int64_t p = 0; p < kPoints; ++p) add_product(p, count, i > first);
    }
    for (int64_t k = 0; k < pieces_.out; ++k)
      store_filter_gradients(sums_ + k * pieces_.in, sums_stride_, pieces_.in, all_in_,
                             all + (range * all_out_ + out + k) * 9 * all_in_ + in);
  }

 private:
  // Adds to point p of the sums, or overwrites it if `add` is false.
  void add_product(int64_t p, int64_t count, bool add) {
    const T* right = patches_ + p * patch_stride_;
    if constexpr (kPairs<T>) {
      pack_pairs(right, pieces_.in, count, pieces_.in, pieces_.in, pairs_);
      right = pairs_;
    }
    multiply<T>(pieces_.out, pieces_.in, count, grads_ + p * grad_stride_, kTiles, right,
                pieces_.in, sums_ + p * sums_stride_, pieces_.in, add);
  }

  const TileGrid s_;
  const Pieces pieces_;
  const int64_t all_out_, all_in_;
  const int64_t patch_stride_, grad_stride_, sums_stride_;
  ThreadMemory memory_;
  T *patches_, *pairs_ = nullptr, *grads_;
  S* nothing_;
  float* sums_;
};

// Returns the gradient of the kernel (3, 3, in, out), float32, stored as (out, 3, 3, in).
template <class S, class T>
at::Tensor winograd_kernel_gradient(const at::Tensor& x, const at::Tensor& grad) {
  const TileGrid s = tiles_of(x);
  const int64_t in = x.size(1), out = grad.size(1);
  const Pieces pieces(s, out, in);
  const at::Tensor parts = at::empty({pieces.ranges, out, 9, in}, at::kFloat);
  at::parallel_for(0, pieces.count(), 1, [&](int64_t begin, int64_t end) {
    const AmxUse use;
    KernelGradient<S, T> one(s, pieces, out, in);
    for (int64_t i = begin; i < end; ++i)
      one.run(x.const_data_ptr<S>(), grad.const_data_ptr<S>(), i, parts.data_ptr<float>());
  });
  return parts.sum(0).view({out, 3, 3, in}).permute({1, 2, 3, 0});
}

template <class S, class T>
struct WinogradConv {
  static at::Tensor convolve(const at::Tensor& x, const at::Tensor& kernel,
                             const at::Tensor& bias) {
    const at::Tensor taps = kernel.to(c10::CppTypeToScalarType<T>::value).contiguous();
    const at::Tensor y = empty_result(x, kernel.size(3));
    winograd_convolve<S, T>(x, filter_points_of<T>(taps, /*turned=*/false),
                            bias.defined() ? bias.const_data_ptr<float>() : nullptr, y);
    return y;
  }

  static at::Tensor input_gradient(const at::Tensor& x, const at::Tensor& kernel,
                                   const at::Tensor& grad) {
    const at::Tensor taps =
        kernel.to(c10::CppTypeToScalarType<T>::value).transpose(2, 3).contiguous();
    const at::Tensor dx = at::empty_like(x);
    winograd_convolve<S, T>(grad, filter_points_of<T>(taps, /*turned=*/true), nullptr, dx);
    return dx;
  }

  static at::Tensor kernel_gradient(const at::Tensor& x, const at::Tensor&,
                                    const at::Tensor& grad) {
    return winograd_kernel_gradient<S, T>(x, grad);
  }
};

}  // namespace

bool winograd_conv_fits(const at::Tensor& x, const at::Tensor& kernel, at::ScalarType type) {
  if (plain_kernels() || !x.is_cpu() || x.numel() == 0) return false;
  if (TileGrid{1, x.size(2), x.size(3)}.count() < kLeastTiles) return false;
  if (kernel.size(0) != 3 || kernel.size(1) != 3) return false;
  const int64_t in = kernel.size(2), out = kernel.size(3);
  if (x.size(1) != in || std::min(in, out) < kLeastChannels) return false;
  if (!has_wide_blocks(in) || !has_wide_blocks(out)) return false;
  if (type == at::kFloat) return can_multiply<float>();
  // With AMX, direct_conv() is faster.
  if (type != at::kBFloat16 || has_amx()) return false;
  return multiplies_bf16_in_float32() ? can_multiply<float>() : can_multiply<BFloat16>();
}

at::Tensor winograd_conv(const at::Tensor& x, const at::Tensor& kernel, const at::Tensor& bias,
                         at::ScalarType type) {
  const at::Tensor input = x.to(type).contiguous(kChannelsLast);
  const std::optional<at::Tensor> start = bias.defined() ? std::optional(bias) : std::nullopt;
  if (type == at::kFloat)
    return ConvFunction<WinogradConv<float, float>>::apply(input, kernel, start);
  return multiplies_bf16_in_float32()
             ? ConvFunction<WinogradConv<BFloat16, float>>::apply(input, kernel, start)
             : ConvFunction<WinogradConv<BFloat16, BFloat16>>::apply(input, kernel, start);
}

}  // namespace bv
