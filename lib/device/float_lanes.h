// Vectors of sixteen floats in plain C++ (vector extensions of GCC and clang) for the kernels of
// models and optimizers. dispatch() compiles a loop three times and chooses at run time. The loop
// takes its types from its argument:
//     simd::dispatch([&](auto registers) __attribute__((always_inline)) {
//       using Floats = typename decltype(registers)::Floats;
//       ...
//     });
// Sixteen floats are one zmm register with AVX-512, two ymm registers with AVX2 and FMA, and four
// xmm registers otherwise. One vector type for all would be slow. GCC keeps a vector in memory if
// it does not fit one register, and copies it in pieces of 16 bytes. Loops then take up to four
// times as long. A loop that the compiler auto-vectorizes needs no argument.
//
// Everything called inside must be always_inline, or it is compiled without these instructions.
// Pass vectors by reference: how they are passed by value depends on the instructions enabled.
//
// Do not compare these vectors with < or ==, and do not choose with ?:. Where a vector takes two
// registers, GCC compiles both to code for one element at a time. not_positive(), at_most() and
// choose() below avoid this: they use arithmetic on the bits.
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
#include <type_traits>

#include "lib/device/cpu_isa.h"
#include "lib/device/vector_pair.h"

namespace bv::simd {

constexpr int64_t kLanes = 16;

// Of 4, 8 or 16 numbers. Ints are also masks: -1 for true, 0 for false.
using Floats4 = float __attribute__((vector_size(16)));
using Floats8 = float __attribute__((vector_size(32)));
using Floats16 = float __attribute__((vector_size(64)));
using Ints4 = int32_t __attribute__((vector_size(16)));
using Ints8 = int32_t __attribute__((vector_size(32)));
using Ints16 = int32_t __attribute__((vector_size(64)));
using Words4 = uint32_t __attribute__((vector_size(16)));
using Words8 = uint32_t __attribute__((vector_size(32)));
using Words16 = uint32_t __attribute__((vector_size(64)));
using Halves4 = uint16_t __attribute__((vector_size(8)));
using Halves8 = uint16_t __attribute__((vector_size(16)));
using Halves16 = uint16_t __attribute__((vector_size(32)));
using Bytes4 = uint8_t __attribute__((vector_size(4)));
using Bytes8 = uint8_t __attribute__((vector_size(8)));
using Bytes16 = uint8_t __attribute__((vector_size(16)));

// Read or write a vector at any address. Not a template: GCC drops the `aligned` attribute of a
// type that is an argument of a template.
#define BV_TRANSFER(Vector, Number, bytes)                                     \
  typedef Number Vector##At                                                    \
      __attribute__((vector_size(bytes), aligned(sizeof(Number)), may_alias)); \
  [[gnu::always_inline]] inline void transfer(const void* from, Vector& to) {  \
    to = *static_cast<const Vector##At*>(from);                                \
  }                                                                            \
  [[gnu::always_inline]] inline void transfer(const Vector& from, void* to) {  \
    *static_cast<Vector##At*>(to) = from;                                      \
  }
BV_TRANSFER(Floats4, float, 16)
BV_TRANSFER(Floats8, float, 32)
BV_TRANSFER(Floats16, float, 64)
BV_TRANSFER(Halves4, uint16_t, 8)
BV_TRANSFER(Halves8, uint16_t, 16)
BV_TRANSFER(Halves16, uint16_t, 32)
BV_TRANSFER(Bytes4, uint8_t, 4)
BV_TRANSFER(Bytes8, uint8_t, 8)
BV_TRANSFER(Bytes16, uint8_t, 16)
#undef BV_TRANSFER

// dispatch() passes one of these to a loop. It defines in how many registers sixteen floats are.
struct OneRegister {
  using Floats = Floats16;
};
struct TwoRegisters {
  using Floats = Pair<Floats8>;
};
struct FourRegisters {
  using Floats = Pair<Pair<Floats4>>;
};

// Types<V> names the vector types that have as many elements as V: integers (Ints), unsigned
// integers (Words), 16-bit (Halves) and 8-bit integers (Bytes).
template <class V>
struct Types;
template <>
struct Types<Floats4> {
  using Ints = Ints4;
  using Words = Words4;
  using Halves = Halves4;
};
template <>
struct Types<Floats8> {
  using Ints = Ints8;
  using Words = Words8;
  using Halves = Halves8;
};
template <>
struct Types<Floats16> {
  using Ints = Ints16;
  using Words = Words16;
  using Halves = Halves16;
};
template <class V>
struct Types<Pair<V>> {
  using Ints = Pair<typename Types<V>::Ints>;
  using Words = Pair<typename Types<V>::Words>;
};
template <>
struct Types<Ints4> {
  using Bytes = Bytes4;
};
template <>
struct Types<Ints8> {
  using Bytes = Bytes8;
};
template <>
struct Types<Ints16> {
  using Bytes = Bytes16;
};
template <class V>
using IntsOf = typename Types<V>::Ints;
template <class V>
using WordsOf = typename Types<V>::Words;

// From and to memory at any address. bfloat16 is rounded to nearest, ties to even; a NaN stays a
// NaN.
template <class V>
[[gnu::always_inline]] inline void load(const float* from, V& to) {
  if constexpr (kIsPair<V>) {
    load(from, to.low);
    load(from + kCount<V> / 2, to.high);
  } else {
    transfer(from, to);
  }
}
template <class V>
[[gnu::always_inline]] inline void store(const V& from, float* to) {
  if constexpr (kIsPair<V>) {
    store(from.low, to);
    store(from.high, to + kCount<V> / 2);
  } else {
    transfer(from, to);
  }
}
template <class V>
[[gnu::always_inline]] inline void load(const c10::BFloat16* from, V& to) {
  if constexpr (kIsPair<V>) {
    load(from, to.low);
    load(from + kCount<V> / 2, to.high);
  } else {
    typename Types<V>::Halves halves;
    transfer(from, halves);
    to = (V)(__builtin_convertvector(halves, WordsOf<V>) << 16);
  }
}

// mask: which are NaN.
template <class V>
[[gnu::always_inline]] inline void is_nan(const V& x, IntsOf<V>& mask) {
  mask = (0x7f800000 - ((IntsOf<V>)x & 0x7fffffff)) >> 31;
}
// mask: which are <= 0. A NaN is not.
template <class V>
[[gnu::always_inline]] inline void not_positive(const V& x, IntsOf<V>& mask) {
  using Ints = IntsOf<V>;
  const Ints bits = (Ints)x;
  Ints nan;
  is_nan(x, nan);
  mask = ((bits | (Ints)((WordsOf<V>)bits - 1u)) >> 31) & ~nan;
}
// mask: where a <= b. False if one is NaN, or if both are infinite.
template <class V>
[[gnu::always_inline]] inline void at_most(const V& a, const V& b, IntsOf<V>& mask) {
  const V rest = b - a;
  IntsOf<V> nan;
  is_nan(rest, nan);
  mask = ~((IntsOf<V>)rest >> 31) & ~nan;
}
// mask: where the bits are equal.
template <class V>
[[gnu::always_inline]] inline void same_bits(const V& a, const V& b, IntsOf<V>& mask) {
  const WordsOf<V> other = (WordsOf<V>)a ^ (WordsOf<V>)b;
  mask = ~((IntsOf<V>)(other | (0u - other)) >> 31);
}
// y = mask ? yes : no.
template <class V>
[[gnu::always_inline]] inline void choose(const IntsOf<V>& mask, const V& yes, const V& no, V& y) {
  using Ints = IntsOf<V>;
  y = (V)((mask & (Ints)yes) | (~mask & (Ints)no));
}
// y = mask ? x : 0.
template <class V>
[[gnu::always_inline]] inline void keep(const IntsOf<V>& mask, const V& x, V& y) {
  y = (V)(mask & (IntsOf<V>)x);
}

template <class V>
[[gnu::always_inline]] inline void store(const V& from, c10::BFloat16* to) {
  if constexpr (kIsPair<V>) {
    store(from.low, to);
    store(from.high, to + kCount<V> / 2);
  } else {
    using Words = WordsOf<V>;
    const Words bits = (Words)from;
    const Words rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    IntsOf<V> nan;
    is_nan(from, nan);
    using Halves = typename Types<V>::Halves;
    const Halves halves =
        __builtin_convertvector((rounded & (Words)~nan) | (0x7fc0u & (Words)nan), Halves);
    transfer(halves, to);
  }
}

// From and to integers below 256.
template <class I>
[[gnu::always_inline]] inline void load(const uint8_t* from, I& to) {
  if constexpr (kIsPair<I>) {
    load(from, to.low);
    load(from + kCount<I> / 2, to.high);
  } else {
    typename Types<I>::Bytes bytes;
    transfer(from, bytes);
    to = __builtin_convertvector(bytes, I);
  }
}
template <class I>
[[gnu::always_inline]] inline void store(const I& from, uint8_t* to) {
  if constexpr (kIsPair<I>) {
    store(from.low, to);
    store(from.high, to + kCount<I> / 2);
  } else {
    using Bytes = typename Types<I>::Bytes;
    const Bytes bytes = __builtin_convertvector(from, Bytes);
    transfer(bytes, to);
  }
}

// Loads `count` numbers, at least 1; fewer than sixteen are followed by zeros.
template <class T, class V>
[[gnu::always_inline]] inline void load_some(const T* from, int64_t count, V& to) {
  if (count >= kLanes) return load(from, to);
  T part[kLanes] = {};
  std::memcpy(part, from, sizeof(T) * static_cast<size_t>(count));
  load(part, to);
}
// Stores the first `count` numbers, at most sixteen.
template <class T, class V>
[[gnu::always_inline]] inline void store_some(const V& from, int64_t count, T* to) {
  if (count >= kLanes) return store(from, to);
  T part[kLanes];
  store(from, part);
  std::memcpy(to, part, sizeof(T) * static_cast<size_t>(count));
}
// y = the first `count` numbers of x, and zeros.
template <class V>
[[gnu::always_inline]] inline void keep_first(int64_t count, const V& x, V& y) {
  constexpr float kLane[kLanes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  V before;
  load(kLane, before);
  before -= static_cast<float>(count);  // negative: one of the first
  keep((IntsOf<V>)before >> 31, x, y);
}

template <class V>
[[gnu::always_inline]] inline float sum_of(const V& x) {
  if constexpr (kIsPair<V>) {
    return sum_of(x.low + x.high);
  } else {
    float sum = 0;
    for (int64_t i = 0; i < kCount<V>; ++i) sum += x[i];
    return sum;
  }
}
// The maximum of sixteen numbers. If some are NaN, NaN or the maximum of the others.
template <class V>
[[gnu::always_inline]] inline float greatest_of(const V& x) {
  float all[kLanes], top;
  store(x, all);
  top = all[0];
  for (const float each : all) top = each > top ? each : top;
  return top;
}

template <class Registers, class F>
[[gnu::always_inline]] inline void call(const F& f) {
  if constexpr (std::is_invocable_v<const F&, Registers>)
    f(Registers());
  else
    f();
}
template <class F>
[[gnu::target("avx512f"), gnu::noinline]] void run_avx512(const F& f) {
  call<OneRegister>(f);
}
template <class F>
[[gnu::target("avx2,fma"), gnu::noinline]] void run_avx2(const F& f) {
  call<TwoRegisters>(f);
}
template <class F>
[[gnu::noinline]] void run_plain(const F& f) {
  call<FourRegisters>(f);
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
