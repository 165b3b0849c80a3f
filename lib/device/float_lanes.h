// Vectors of sixteen floats in plain C++ (vector extensions of GCC and clang) for the kernels of
// models and optimizers. The same code runs in a zmm register with AVX-512, two ymm registers with
// AVX2 and FMA, or four xmm registers otherwise, chosen at run time:
//     simd::dispatch([&]() __attribute__((always_inline)) { loop(in, out, n); });
// Everything called inside must be always_inline, or it is compiled without these instructions.
// Pass vectors by reference: how they are passed by value depends on the instructions enabled.
//
// Do not compare these vectors with < or ==, and do not choose with ?:. Where a vector takes two
// registers, as with AVX2, GCC compiles both to code for one element at a time. not_positive(),
// at_most() and choose() below avoid this: they use arithmetic on the bits.
//
// Use this header for float kernels that are written with explicit vectors. The compiler may
// contract a * b + c to an FMA, so the last bit of a result can differ between CPUs. Where results
// must not depend on the CPU, use lib/device/cpu_dispatch.h.
//
// It does not use target_clones, because the ifunc resolvers crash under ThreadSanitizer.
#pragma once

#include <c10/util/BFloat16.h>

#include <cstdint>
#include <cstring>

#include "lib/device/cpu_isa.h"

namespace bv::simd {

constexpr int64_t kLanes = 16;

using Floats = float __attribute__((vector_size(64)));
// Also masks: -1 for true, 0 for false.
using Ints = int32_t __attribute__((vector_size(64)));
using Words = uint32_t __attribute__((vector_size(64)));

// The same types in memory, at any address.
typedef float FloatsAt __attribute__((vector_size(64), aligned(4), may_alias));
typedef uint16_t HalvesAt __attribute__((vector_size(32), aligned(2), may_alias));
typedef uint8_t BytesAt __attribute__((vector_size(16), aligned(1), may_alias));

[[gnu::always_inline]] inline void load(const float* from, Floats& to) {
  to = *reinterpret_cast<const FloatsAt*>(from);
}

[[gnu::always_inline]] inline void load(const c10::BFloat16* from, Floats& to) {
  to = reinterpret_cast<Floats>(
      __builtin_convertvector(*reinterpret_cast<const HalvesAt*>(from), Words) << 16);
}

[[gnu::always_inline]] inline void store(const Floats& from, float* to) {
  *reinterpret_cast<FloatsAt*>(to) = from;
}

// mask: which are NaN.
[[gnu::always_inline]] inline void is_nan(const Floats& x, Ints& mask) {
  mask = (0x7f800000 - ((Ints)x & 0x7fffffff)) >> 31;
}
// mask: which are <= 0. A NaN is not.
[[gnu::always_inline]] inline void not_positive(const Floats& x, Ints& mask) {
  const Ints bits = (Ints)x;
  Ints nan;
  is_nan(x, nan);
  mask = ((bits | (Ints)((Words)bits - 1u)) >> 31) & ~nan;
}
// mask: where a <= b. False if one is NaN, or if both are infinite.
[[gnu::always_inline]] inline void at_most(const Floats& a, const Floats& b, Ints& mask) {
  const Floats rest = b - a;
  Ints nan;
  is_nan(rest, nan);
  mask = ~((Ints)rest >> 31) & ~nan;
}
// mask: where the bits are equal.
[[gnu::always_inline]] inline void same_bits(const Floats& a, const Floats& b, Ints& mask) {
  const Words other = (Words)a ^ (Words)b;
  mask = ~((Ints)(other | (0u - other)) >> 31);
}
// y = mask ? yes : no.
[[gnu::always_inline]] inline void choose(const Ints& mask, const Floats& yes, const Floats& no,
                                          Floats& y) {
  y = (Floats)((mask & (Ints)yes) | (~mask & (Ints)no));
}
// y = mask ? x : 0.
[[gnu::always_inline]] inline void keep(const Ints& mask, const Floats& x, Floats& y) {
  y = (Floats)(mask & (Ints)x);
}

// Rounds to nearest, ties to even. A NaN stays a NaN.
[[gnu::always_inline]] inline void store(const Floats& from, c10::BFloat16* to) {
  const Words bits = (Words)from;
  const Words rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  Ints nan;
  is_nan(from, nan);
  *reinterpret_cast<HalvesAt*>(to) =
      __builtin_convertvector((rounded & (Words)~nan) | (0x7fc0u & (Words)nan), HalvesAt);
}

[[gnu::always_inline]] inline void load(const uint8_t* from, Ints& to) {
  to = __builtin_convertvector(*reinterpret_cast<const BytesAt*>(from), Ints);
}

[[gnu::always_inline]] inline void store(const Ints& from, uint8_t* to) {
  *reinterpret_cast<BytesAt*>(to) = __builtin_convertvector(from, BytesAt);
}

// Loads `count` numbers, at least 1; fewer than sixteen are followed by zeros.
template <class T>
[[gnu::always_inline]] inline void load_some(const T* from, int64_t count, Floats& to) {
  if (count >= kLanes) return load(from, to);
  T part[kLanes] = {};
  std::memcpy(part, from, sizeof(T) * static_cast<size_t>(count));
  load(part, to);
}
// Stores the first `count` numbers, at most sixteen.
template <class T>
[[gnu::always_inline]] inline void store_some(const Floats& from, int64_t count, T* to) {
  if (count >= kLanes) return store(from, to);
  T part[kLanes];
  store(from, part);
  std::memcpy(to, part, sizeof(T) * static_cast<size_t>(count));
}
// y = the first `count` numbers of x, and zeros.
[[gnu::always_inline]] inline void keep_first(int64_t count, const Floats& x, Floats& y) {
  constexpr Ints kLane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  keep((kLane - static_cast<int32_t>(count)) >> 31, x, y);
}

[[gnu::always_inline]] inline float sum_of(const Floats& x) {
  float sum = 0;
  for (int64_t i = 0; i < kLanes; ++i) sum += x[i];
  return sum;
}

template <class F>
[[gnu::target("avx512f"), gnu::noinline]] void run_avx512(const F& f) {
  f();
}
template <class F>
[[gnu::target("avx2,fma"), gnu::noinline]] void run_avx2(const F& f) {
  f();
}
template <class F>
[[gnu::noinline]] void run_plain(const F& f) {
  f();
}

// Calls `f`, compiled for the instructions of cpu_isa().
template <class F>
void dispatch(const F& f) {
  switch (cpu_isa()) {
    case CpuIsa::avx512:
      return run_avx512(f);
    case CpuIsa::avx2:
      return run_avx2(f);
    case CpuIsa::baseline:
      return run_plain(f);
  }
}

}  // namespace bv::simd
