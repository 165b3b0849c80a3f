// Group normalization of channels_last activations (lib/model/kernels/device/group_norm_pass.h).
// Forward and backward each read the activations twice: once for the sums of each image, and once
// for the result.
//
// Sums are reproducible: a thread sums its pixels, a block sums its threads in a fixed tree, and
// one block per image sums the parts.
#include "lib/cuda/check.h"
#include "lib/cuda/export.h"
#include "lib/cuda/group_norm_tiling.h"
#include "lib/cuda/scratch.h"

namespace bv {
namespace group_norm_cuda {

constexpr int kWarps = kThreads / kWarp;

// ---- forward

// Per channel: the mean of `count` values and the sum of their squared deviations from it.
struct ChannelMoments {
  float count = 0;
  float mean[kOctet] = {}, square[kOctet] = {};
};

// Computes the moments of N pixels and merges them by the formula of Chan, Golub and LeVeque
// (1979), "Updating formulae and a pairwise algorithm for computing sample variances".
template <int N, class T>
__device__ inline void add_pixels(const T* from, int64_t step, ChannelMoments& to) {
  Octet<T> raw[N];
  for (int i = 0; i < N; ++i) raw[i] = octet(from + i * step);
  const float count = to.count + N, share = N / count, both = to.count * share;
  for (int k = 0; k < kOctet; ++k) {
    float mean = 0, square = 0;
    for (int i = 0; i < N; ++i) mean += load(raw[i].values[k]);
    mean *= 1.0F / N;
    for (int i = 0; i < N; ++i) {
      const float rest = load(raw[i].values[k]) - mean;
      square += rest * rest;
    }
    const float apart = mean - to.mean[k];
    to.mean[k] += apart * share;
    to.square[k] += square + apart * apart * both;
  }
  to.count = count;
}

// Computes the means and squares of each part, (n, parts, 2, c).
template <class T>
__global__ void __launch_bounds__(kThreads) part_moments(Tiling t, const T* x, float* parts) {
  __shared__ float counts[kThreads], means[kOctet][kThreads], squares[kOctet][kThreads];
  const ThreadShare at = place_in_sums(t);
  const int own = static_cast<int>(threadIdx.x);
  ChannelMoments sum;
  for_pixels<4>(
      t, at, [&]<int N>(int64_t element, int64_t step) { add_pixels<N>(x + element, step, sum); });
  counts[own] = sum.count;
  for (int k = 0; k < kOctet; ++k) {
    means[k][own] = sum.mean[k];
    squares[k][own] = sum.square[k];
  }
  __syncthreads();
  for (int half = first_half(t.rows); half > 0; half /= 2) {
    const int other = own + half * t.lanes;
    if (at.row < half && at.row + half < t.rows && counts[other] > 0) {
      const float count = counts[own] + counts[other], share = counts[other] / count;
      for (int k = 0; k < kOctet; ++k) {
        const float apart = means[k][other] - means[k][own];
        squares[k][own] += squares[k][other] + apart * apart * counts[own] * share;
        means[k][own] += apart * share;
      }
      counts[own] = count;
    }
    __syncthreads();
  }
  if (!at.used || at.row > 0) return;
  for (int k = 0; k < kOctet; ++k) {
    sum.mean[k] = means[k][own];
    sum.square[k] = squares[k][own];
  }
  float* to = parts + (at.image * t.parts + at.part) * 2 * t.c + at.channel;
  store(to, sum.mean);
  store(to + t.c, sum.square);
}

// Turns the moments of an image's parts into its tables, one block per image and one warp per
// group.
__global__ void __launch_bounds__(kThreads)
    fill_tables(Tiling t, double eps, const float* all_parts, const float* scale, const float* bias,
                float* all_tables) {
  const float* parts = all_parts + blockIdx.x * t.parts * 2 * t.c;
  float* tables = all_tables + static_cast<int64_t>(blockIdx.x) * kTables * t.c;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int size = t.c / t.groups, items = static_cast<int>(t.parts) * size;
  const double count = static_cast<double>(t.pixels) * size;
  for (int first_group = 0; first_group < t.groups; first_group += kWarps) {
    // The threads of warps that have no group call warp_sum() too.
    const int group = first_group + warp, first = group * size;
    const int own_items = group < t.groups ? items : 0;
    const float pivot = own_items > 0 ? parts[first] : 0;
    // Calls f(pixels, mean - pivot, square) for each part and channel of the group.
    const auto for_items = [&](const auto& f) {
      for (int i = lane; i < own_items; i += kWarp) {
        const int part = i / size;
        const int64_t left = t.pixels - part * t.part_pixels;
        const float* from = parts + static_cast<int64_t>(part) * 2 * t.c + first + i % size;
        f(static_cast<float>(left < t.part_pixels ? left : t.part_pixels), from[0] - pivot,
          from[t.c]);
      }
    };
    float sum = 0, squares = 0;
    for_items([&](float pixels, float apart, float) { sum += pixels * apart; });
    const double from_pivot = warp_sum(sum) / count;
    const auto centre = static_cast<float>(from_pivot);
    for_items([&](float pixels, float apart, float square) {
      squares += square + pixels * (apart - centre) * (apart - centre);
    });
    const double mean = pivot + from_pivot, rstd = 1 / sqrt(warp_sum(squares) / count + eps);
    for (int k = first + lane; own_items > 0 && k < first + size; k += kWarp) {
      const double gain = scale[k] * rstd;
      tables[kGain * t.c + k] = static_cast<float>(gain);
      tables[kShift * t.c + k] = static_cast<float>(bias[k] - mean * gain);
      tables[kMean * t.c + k] = static_cast<float>(mean);
      tables[kRstd * t.c + k] = static_cast<float>(rstd);
    }
  }
}

// Pixels that a thread loads at once: 32 bytes of x.
template <class T>
constexpr int kAtOnce = sizeof(T) == 2 ? 2 : 1;

template <NormTail Tail, class T, class Y>
__global__ void __launch_bounds__(kThreads) normalise(Tiling t, GroupNormForward pass) {
  const ThreadShare at = place_to_apply(t);
  if (!at.used) return;
  const float* tables = pass.tables + at.image * kTables * t.c + at.channel;
  float gain[kOctet], shift[kOctet];
  load(tables + kGain * t.c, gain);
  load(tables + kShift * t.c, shift);
  for_pixels<kAtOnce<T>>(t, at, [&]<int N>(int64_t element, int64_t step) {
    Octet<T> raw[N];
    [[maybe_unused]] Octet<float> other[N];
    for (int i = 0; i < N; ++i) {
      raw[i] = octet(static_cast<const T*>(pass.x) + element + i * step);
      if constexpr (Tail == NormTail::add_relu)
        other[i] = octet(pass.shortcut + element + i * step);
    }
    for (int i = 0; i < N; ++i, element += step) {
      float value[kOctet];
      unsigned active = 0;
      for (int k = 0; k < kOctet; ++k) {
        value[k] = fmaf(load(raw[i].values[k]), gain[k], shift[k]);
        if constexpr (Tail == NormTail::add_relu) value[k] += other[i].values[k];
        if constexpr (Tail == NormTail::nothing) continue;
        if (value[k] <= 0)  // NaN passes through
          value[k] = 0;
        else
          active |= 1U << k;
      }
      store(static_cast<Y*>(pass.y) + element, value);
      if constexpr (Tail == NormTail::add_relu) {
        if (pass.rounded) store(reinterpret_cast<Bf16*>(pass.rounded) + element, value);
        pass.active[element / kOctet] = static_cast<uint8_t>(active);
      }
    }
  });
}

// ---- backward

// Computes the sums of g and of g * (x - mean) for each part, (n, parts, 2, c). g is the gradient
// of the ReLU's input; with add_relu it is also the gradient of the shortcut.
template <NormTail Tail, class T, class Y>
__global__ void __launch_bounds__(kThreads)
    part_gradients(Tiling t, GroupNormBackward pass, float* parts) {
  __shared__ float sums[kOctet][kThreads], products[kOctet][kThreads];
  const ThreadShare at = place_in_sums(t);
  const int own = static_cast<int>(threadIdx.x);
  float sum[kOctet] = {}, product[kOctet] = {};
  const float* tables = pass.tables + at.image * kTables * t.c + at.channel;
  float gain[kOctet] = {}, shift[kOctet] = {}, mean[kOctet] = {};
  if (at.used) load(tables + kMean * t.c, mean);
  if (Tail == NormTail::relu && at.used) {
    load(tables + kGain * t.c, gain);
    load(tables + kShift * t.c, shift);
  }
  for_pixels<kAtOnce<T>>(t, at, [&]<int N>(int64_t element, int64_t step) {
    const Y* grad = static_cast<const Y*>(pass.grad);
    [[maybe_unused]] const Bf16* rounded = reinterpret_cast<const Bf16*>(pass.rounded_grad);
    Octet<T> raw[N];
    Octet<Y> grads[N] = {};
    [[maybe_unused]] Octet<Bf16> more[N] = {};
    [[maybe_unused]] unsigned active[N];
    for (int i = 0; i < N; ++i) {
      const int64_t from = element + i * step;
      raw[i] = octet(static_cast<const T*>(pass.x) + from);
      if (Tail != NormTail::add_relu || grad) grads[i] = octet(grad + from);
      if constexpr (Tail == NormTail::add_relu) {
        if (rounded) more[i] = octet(rounded + from);
        active[i] = pass.active[from / kOctet];
      }
    }
    for (int i = 0; i < N; ++i, element += step) {
      float g[kOctet];
      for (int k = 0; k < kOctet; ++k) {
        const float value = load(raw[i].values[k]);
        g[k] = load(grads[i].values[k]);
        if constexpr (Tail == NormTail::add_relu) {
          g[k] += load(more[i].values[k]);
          if ((active[i] >> k & 1) == 0) g[k] = 0;
        }
        if constexpr (Tail == NormTail::relu) {
          if (fmaf(value, gain[k], shift[k]) <= 0) g[k] = 0;
        }
        sum[k] += g[k];
        product[k] += g[k] * (value - mean[k]);
      }
      if constexpr (Tail == NormTail::add_relu) store(pass.dshortcut + element, g);
    }
  });
  for (int k = 0; k < kOctet; ++k) {
    sums[k][own] = sum[k];
    products[k][own] = product[k];
  }
  __syncthreads();
  for (int half = first_half(t.rows); half > 0; half /= 2) {
    const int other = own + half * t.lanes;
    if (at.row < half && at.row + half < t.rows) {
      for (int k = 0; k < kOctet; ++k) {
        sums[k][own] += sums[k][other];
        products[k][own] += products[k][other];
      }
    }
    __syncthreads();
  }
  if (!at.used || at.row > 0) return;
  for (int k = 0; k < kOctet; ++k) {
    sum[k] = sums[k][own];
    product[k] = products[k][own];
  }
  float* to = parts + (at.image * t.parts + at.part) * 2 * t.c + at.channel;
  store(to, sum);
  store(to + t.c, product);
}

// Sums the parts of an image, one block per image. Computes `shares` (n, 2, c), each image's
// gradients of bias and scale, and `corrections` (n, 2, c), slopes and offsets:
// dx = gain * g + slope * x + offset.
__global__ void __launch_bounds__(kThreads)
    fill_gradient_tables(Tiling t, const float* all_parts, const float* scale,
                         const float* all_tables, float* all_shares, float* all_corrections) {
  const int64_t image = blockIdx.x;
  const float* parts = all_parts + image * t.parts * 2 * t.c;
  const float* tables = all_tables + image * kTables * t.c;
  float *shares = all_shares + image * 2 * t.c, *corrections = all_corrections + image * 2 * t.c;
  for (int k = static_cast<int>(threadIdx.x); k < t.c; k += kThreads) {
    float sum = 0, product = 0;
    for (int64_t part = 0; part < t.parts; ++part) {
      sum += parts[part * 2 * t.c + k];
      product += parts[part * 2 * t.c + t.c + k];
    }
    shares[k] = sum;
    shares[t.c + k] = product * tables[kRstd * t.c + k];
  }
  __syncthreads();
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int size = t.c / t.groups;
  const double count = static_cast<double>(t.pixels) * size;
  for (int first_group = 0; first_group < t.groups; first_group += kWarps) {
    const int group = first_group + warp, first = group * size;
    const int end = group < t.groups ? first + size : 0;
    float sum = 0, product = 0;
    for (int k = first + lane; k < end; k += kWarp) {
      sum += scale[k] * shares[k];
      product += scale[k] * shares[t.c + k];
    }
    sum = warp_sum(sum);
    product = warp_sum(product);
    for (int k = first + lane; k < end; k += kWarp) {
      const double mean = tables[kMean * t.c + k], rstd = tables[kRstd * t.c + k];
      const double slope = -rstd * rstd * product / count;
      corrections[k] = static_cast<float>(slope);
      corrections[t.c + k] = static_cast<float>(-rstd * sum / count - slope * mean);
    }
  }
}

// Sums the shares over the images. A block computes 32 of the 2 * c columns.
__global__ void __launch_bounds__(kThreads)
    sum_images(int64_t n, int c, const float* shares, float* dbias, float* dscale) {
  __shared__ float sums[kThreads];
  const int thread = static_cast<int>(threadIdx.x), row = thread / kWarp;
  const int column = static_cast<int>(blockIdx.x) * kWarp + thread % kWarp;
  float sum = 0;
  if (column < 2 * c) {
    for (int64_t i = row; i < n; i += kWarps) sum += shares[i * 2 * c + column];
  }
  sums[thread] = sum;
  __syncthreads();
  if (row > 0 || column >= 2 * c) return;
  for (int i = 1; i < kWarps; ++i) sum += sums[i * kWarp + thread];
  *(column < c ? dbias + column : dscale + column - c) = sum;
}

// `grad`: the gradient of the ReLU's output or, without a ReLU, of the normalized x.
template <NormTail Tail, class T, class Y>
__global__ void __launch_bounds__(kThreads)
    apply_gradient(Tiling t, const T* x, const Y* grad, const float* all_tables,
                   const float* corrections, T* dx) {
  const ThreadShare at = place_to_apply(t);
  if (!at.used) return;
  const float* tables = all_tables + at.image * kTables * t.c + at.channel;
  corrections += at.image * 2 * t.c + at.channel;
  float gain[kOctet], shift[kOctet], slope[kOctet], offset[kOctet];
  load(tables + kGain * t.c, gain);
  if constexpr (Tail == NormTail::relu) load(tables + kShift * t.c, shift);
  load(corrections, slope);
  load(corrections + t.c, offset);
  for_pixels<kAtOnce<T>>(t, at, [&]<int N>(int64_t element, int64_t step) {
    Octet<T> raw[N];
    Octet<Y> grads[N];
    for (int i = 0; i < N; ++i) {
      raw[i] = octet(x + element + i * step);
      grads[i] = octet(grad + element + i * step);
    }
    for (int i = 0; i < N; ++i, element += step) {
      float result[kOctet];
      for (int k = 0; k < kOctet; ++k) {
        const float value = load(raw[i].values[k]);
        float g = load(grads[i].values[k]);
        if constexpr (Tail == NormTail::relu) {
          if (fmaf(value, gain[k], shift[k]) <= 0) g = 0;
        }
        result[k] = fmaf(g, gain[k], fmaf(value, slope[k], offset[k]));
      }
      store(dx + element, result);
    }
  });
}

// ---- host code

// Calls f<Tail, T, Y>() for the types of x and y.
template <class F>
void choose(NormTail tail, bool x_bf16, bool y_bf16, const F& f) {
  const auto with_input = [&]<class T>() {
    if (tail == NormTail::add_relu) return f.template operator()<NormTail::add_relu, T, float>();
    const auto with_output = [&]<class Y>() {
      if (tail == NormTail::relu) return f.template operator()<NormTail::relu, T, Y>();
      return f.template operator()<NormTail::nothing, T, Y>();
    };
    if (y_bf16) return with_output.template operator()<Bf16>();
    return with_output.template operator()<float>();
  };
  if (x_bf16) return with_input.template operator()<Bf16>();
  return with_input.template operator()<float>();
}

inline void run_forward(const GroupNormForward& pass, void* on) {
  auto* const stream = static_cast<cudaStream_t>(on);
  const Tiling t = tiling_of(pass.shape);
  const Scratch scratch(t.sums() * sizeof(float), on);
  auto* const parts = static_cast<float*>(scratch.get());
  choose(pass.tail, pass.x_bf16, pass.y_bf16, [&]<NormTail Tail, class T, class Y>() {
    launch(part_moments<T>, t.blocks(), stream, t, static_cast<const T*>(pass.x), parts);
    launch(fill_tables, t.n, stream, t, pass.eps, parts, pass.scale, pass.bias, pass.tables);
    launch(normalise<Tail, T, Y>, t.blocks(), stream, t, pass);
  });
  check_cuda(cudaGetLastError(), "a group norm");
}

inline void run_backward(const GroupNormBackward& pass, void* on) {
  auto* const stream = static_cast<cudaStream_t>(on);
  const Tiling t = tiling_of(pass.shape);
  const int64_t table = t.n * 2 * t.c;
  const Scratch scratch((t.sums() + 2 * table) * sizeof(float), on);
  auto* const parts = static_cast<float*>(scratch.get());
  float *const shares = parts + t.sums(), *const corrections = shares + table;
  choose(pass.tail, pass.x_bf16, pass.y_bf16, [&]<NormTail Tail, class T, class Y>() {
    const T* x = static_cast<const T*>(pass.x);
    T* dx = static_cast<T*>(pass.dx);
    launch(part_gradients<Tail, T, Y>, t.blocks(), stream, t, pass, parts);
    launch(fill_gradient_tables, t.n, stream, t, parts, pass.scale, pass.tables, shares,
           corrections);
    if constexpr (Tail == NormTail::add_relu)
      launch(apply_gradient<NormTail::nothing, T, float>, t.blocks(), stream, t, x, pass.dshortcut,
             pass.tables, corrections, dx);
    else
      launch(apply_gradient<Tail, T, Y>, t.blocks(), stream, t, x, static_cast<const Y*>(pass.grad),
             pass.tables, corrections, dx);
  });
  launch(sum_images, (2 * t.c + kWarp - 1) / kWarp, stream, t.n, t.c, shares, pass.dbias,
         pass.dscale);
  check_cuda(cudaGetLastError(), "the gradient of a group norm");
}

}  // namespace group_norm_cuda
}  // namespace bv

BV_EXPORT void bvtrain_cuda_group_norm(const bv::GroupNormForward& pass, void* on) {
  bv::group_norm_cuda::run_forward(pass, on);
}

BV_EXPORT void bvtrain_cuda_group_norm_gradient(const bv::GroupNormBackward& pass, void* on) {
  bv::group_norm_cuda::run_backward(pass, on);
}
