// Compiles a kernel twice, plainly and for AVX2, and runs what the CPU has.
//
// AVX2 here is without FMA: products are rounded before they are added, as in the plain build and
// in the reference, so that both give the same bits.
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

// `body` and all it calls must be always_inline: a function of its own would be compiled plainly.
template <class Body>
void run_simd(const Body& body) {
#if defined(__x86_64__)
  static const bool avx2 = __builtin_cpu_supports("avx2");
  if (avx2) return run_avx2(body);
#endif
  run_plain(body);
}

}  // namespace bv
