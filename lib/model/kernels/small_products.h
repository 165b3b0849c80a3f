// Products of matrices that fit into the L2 cache, for kernels that work block by block.
#pragma once

#include <ATen/native/CPUBlas.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/BFloat16.h>

#include <cstdint>
#include <type_traits>
#include <vector>

#include "lib/device/cpu_bf16.h"

namespace bv {

// The right operand of a bfloat16 product has pairs of rows interleaved: pack_pairs() in
// transpose.h. That of a float product is an ordinary matrix.
template <class T>
constexpr bool kPairs = std::is_same_v<T, c10::BFloat16>;

constexpr int64_t even(int64_t x) { return (x + 1) & -2; }

// Returns `count` rounded up to a k that is fast: with AMX a multiple of 32. The caller pads A's
// columns or B's rows with zeros, and the other operand's with finite numbers.
template <class T>
int64_t terms(int64_t count) {
  if (!kPairs<T>) return count;
  return has_amx() ? (count + 31) & -32 : even(count);
}

// Computes C = A B, or C = C + A B if `add` is true. A is (rows, k), B is (k, n), C is (rows, n).
// lda, ldb and ldc are the distances, in elements, between the beginnings of two rows; ldb is the
// distance before the rows of B are paired. If T is bfloat16 and k is odd, A must have one more
// column of finite numbers, and B one more row, of zeros. Calls oneDNN through LibTorch.
template <class T>
void multiply(int64_t rows, int64_t n, int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb,
              float* c, int64_t ldc, bool add = false) {
  at::native::cpublas::brgemm(rows, n, kPairs<T> ? even(k) : k, lda, ldb, ldc, add, a, b, c,
                              kPairs<T>);
}

// multiply<BFloat16>() configures AMX for its sizes, and remembers them. Other code configures AMX
// differently. So a thread that calls multiply() must hold an AmxUse, and while it does, it must
// call nothing else that uses AMX.
class AmxUse {
 public:
  AmxUse() { at::native::cpublas::brgemm_release(); }
  ~AmxUse() { at::native::cpublas::brgemm_release(); }
  AmxUse(const AmxUse&) = delete;
  AmxUse& operator=(const AmxUse&) = delete;
};

// Returns whether multiply<T>() works on this CPU.
template <class T>
bool can_multiply() {
  static const bool can = [] {
    const T a[4] = {T(1), T(2), T(3), T(4)}, b[4] = {T(5), T(6), T(7), T(8)};
    float c[4] = {};
    try {
      const AmxUse use;
      multiply<T>(2, 2, 2, a, 2, b, 2, c, 2);
    } catch (const std::exception&) {  // an error of LibTorch or of oneDNN
      return false;
    }
    // If pairs of rows are interleaved, b stands for the rows (5, 7) and (6, 8).
    return kPairs<T> ? c[0] == 17 && c[1] == 23 : c[0] == 19 && c[1] == 22;
  }();
  return can;
}

// Arrays for one thread, aligned to 64 bytes. They live as long as this object.
class ThreadMemory {
 public:
  template <class T>
  T* take(int64_t count) {
    arrays_.push_back(c10::GetCPUAllocator()->allocate(static_cast<size_t>(count) * sizeof(T)));
    return static_cast<T*>(arrays_.back().get());
  }

 private:
  std::vector<c10::DataPtr> arrays_;
};

}  // namespace bv
