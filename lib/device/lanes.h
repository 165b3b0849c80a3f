// Sixteen float lanes in plain C++ (vector extensions of GCC and clang): a zmm register with
// AVX-512, two ymm with AVX2, four xmm else, chosen at run time:
//     simd::dispatch([&]() __attribute__((always_inline)) { loop(in, out, n); });
// Everything called inside must be always_inline, so vectors go by reference.
// Not by target_clones: its ifunc resolvers crash under ThreadSanitizer.
#pragma once

#include <c10/util/BFloat16.h>

#include <cstdint>

namespace bv::simd {

constexpr int64_t kLanes = 16;

using Floats = float __attribute__((vector_size(64)));
using Ints = int32_t __attribute__((vector_size(64)));  // also comparisons: -1 true, 0 false
using Words = uint32_t __attribute__((vector_size(64)));

// The same in memory, at any address.
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

// Rounds to nearest, ties to even; a NaN stays one.
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
