// Vectors of sixteen floats in plain C++ (vector extensions of GCC and clang) for the kernels of
// models and optimizers. The same code runs in a zmm register with AVX-512, two ymm registers with
// AVX2 and FMA, or four xmm registers otherwise, chosen at run time:
//     simd::dispatch([&]() __attribute__((always_inline)) { loop(in, out, n); });
// Everything called inside must be always_inline, or it is compiled without these instructions.
// Pass vectors by reference: how they are passed by value depends on the instructions enabled.
//
// Use this header for float kernels that are written with explicit vectors. The compiler may
// contract a * b + c to an FMA, so the last bit of a result can differ between CPUs. Where results
// must not depend on the CPU, use lib/device/cpu_dispatch.h.
//
// It does not use target_clones, because the ifunc resolvers crash under ThreadSanitizer.
#pragma once

#include <c10/util/BFloat16.h>

#include <cstdint>

namespace bv::simd {

constexpr int64_t kLanes = 16;

using Floats = float __attribute__((vector_size(64)));
// Also the result of comparisons: -1 for true, 0 for false.
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

// Rounds to nearest, ties to even. A NaN stays a NaN.
[[gnu::always_inline]] inline void store(const Floats& from, c10::BFloat16* to) {
  const Words bits = reinterpret_cast<Words>(from);
  const Words rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  *reinterpret_cast<HalvesAt*>(to) =
      __builtin_convertvector(from == from ? rounded : bits * 0 + 0x7fc0u, HalvesAt);
}

[[gnu::always_inline]] inline void load(const uint8_t* from, Ints& to) {
  to = __builtin_convertvector(*reinterpret_cast<const BytesAt*>(from), Ints);
}

[[gnu::always_inline]] inline void store(const Ints& from, uint8_t* to) {
  *reinterpret_cast<BytesAt*>(to) = __builtin_convertvector(from, BytesAt);
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

// Calls `f`, compiled for the best instructions that this CPU has.
template <class F>
void dispatch(const F& f) {
  static const bool avx512 = __builtin_cpu_supports("avx512f");
  static const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (avx512) {
    run_avx512(f);
  } else if (avx2) {
    run_avx2(f);
  } else {
    run_plain(f);
  }
}

}  // namespace bv::simd
