// bfloat16 numbers in memory, for code that the CPU and CUDA kernels share.
#pragma once

#include <bit>
#include <cstdint>

#include "lib/util/philox.h"

namespace bv {

struct Bf16 {
  uint16_t bits;
};

BV_INLINE float load(const float& x) { return x; }
BV_INLINE float load(const Bf16& x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
}
BV_INLINE void store(float& at, float x) { at = x; }
// Rounds to the nearest, ties to even.
BV_INLINE void store(Bf16& at, float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t nearest_even = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  at.bits = static_cast<uint16_t>(x != x ? 0x7fc0u : nearest_even);
}

// Numbers in memory, float or Bf16.
struct Numbers {
  void* data = nullptr;
  bool bf16 = false;
};

// N numbers that a GPU's thread loads or stores at once. Their address must be a multiple of their
// total size in bytes. On any other address a GPU ends the program, and so does a CPU that emulates
// one.
template <class T, int N>
struct alignas(N * sizeof(T)) Pack {
  T values[N];
};
template <class T, int N>
BV_INLINE Pack<T, N>* pack_at(T* at) {
#ifndef __CUDACC__
  if (reinterpret_cast<uintptr_t>(at) % sizeof(Pack<T, N>) != 0) __builtin_trap();
#endif
  return reinterpret_cast<Pack<T, N>*>(at);
}
template <class T, int N>
BV_INLINE const Pack<T, N>& pack_at(const T* at) {
  return *pack_at<T, N>(const_cast<T*>(at));
}
template <class T, int N>
BV_INLINE void load(const T* from, float (&to)[N]) {
  const Pack<T, N> pack = pack_at<T, N>(from);
  for (int i = 0; i < N; ++i) to[i] = load(pack.values[i]);
}
template <class T, int N>
BV_INLINE void store(T* at, const float (&from)[N]) {
  Pack<T, N> pack;
  for (int i = 0; i < N; ++i) store(pack.values[i], from[i]);
  *pack_at<T, N>(at) = pack;
}

}  // namespace bv
