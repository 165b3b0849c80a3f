// Compiles a loop twice, for any x86-64 CPU and for AVX2, and runs the version that the CPU
// supports. For code that the compiler can auto-vectorize, such as the image operations of
// lib/input.
//
// AVX2 is enabled without FMA on purpose: an FMA rounds once instead of twice, which would change
// results. Without it both versions round every product before the addition, so images are
// bit-identical on every CPU, and identical to those of the TensorFlow or PIL operation that the
// code reproduces. For float kernels with explicit vectors, AVX-512 and FMA, use
// lib/device/float_lanes.h.
#pragma once

namespace bv {

template <class Body>
[[gnu::optimize("O3"), gnu::noinline]] void run_plain(const Body& body) {
  body();
}

#if defined(__x86_64__)
template <class Body>
[[gnu::target("avx2"), gnu::optimize("O3"), gnu::noinline]] void run_avx2(const Body& body) {
  body();
}
#endif

// Calls `body`. It and everything it calls must be always_inline: a function that is not inlined is
// compiled once, without AVX2.
template <class Body>
void run_simd(const Body& body) {
#if defined(__x86_64__)
  static const bool avx2 = __builtin_cpu_supports("avx2");
  if (avx2) return run_avx2(body);
#endif
  run_plain(body);
}

}  // namespace bv
