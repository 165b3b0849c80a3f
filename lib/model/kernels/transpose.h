// Matrices in the layouts that small_products.h takes, with vectors. T is float or BFloat16.
#pragma once

#include <cstring>
#include <type_traits>

#include "lib/device/float_lanes.h"

namespace bv {
namespace simd {

typedef uint32_t Words8At __attribute__((vector_size(32), aligned(2), may_alias));

// Row i becomes column i.
[[gnu::always_inline]] inline void transpose8(Words8 (&r)[8]) {
  Words8 a[8], b[8];
  for (int i = 0; i < 8; i += 2) {
    a[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    a[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  for (int i = 0; i < 8; i += 4) {
    for (int j = 0; j < 2; ++j) {
      b[i + 2 * j] = __builtin_shufflevector(a[i + j], a[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      b[i + 2 * j + 1] =
          __builtin_shufflevector(a[i + j], a[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  }
  for (int i = 0; i < 4; ++i) {
    r[i] = __builtin_shufflevector(b[i], b[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    r[i + 4] = __builtin_shufflevector(b[i], b[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}

// Up to eight words, and zeros.
[[gnu::always_inline]] inline void load_words(const void* from, int64_t count, Words8& to) {
  if (count == 8) {
    to = *reinterpret_cast<const Words8At*>(from);
  } else {
    to = Words8{};
    std::memcpy(&to, from, static_cast<size_t>(4 * count));
  }
}

// Writes the transposed matrix of 16-bit numbers at `from`, `rows` x 2 `words`, at most 16 x 16, to
// `to`. Strides count numbers.
[[gnu::always_inline]] inline void transpose16(const uint16_t* from, int64_t stride, int64_t rows,
                                               int64_t words, int64_t ldto, uint16_t* to) {
  Words8 evens[8], odds[8];  // columns; each word has two rows
  for (int64_t i = 0; i < 8; ++i) {
    Words8 first{}, second{};
    if (2 * i < rows) load_words(from + 2 * i * stride, words, first);
    if (2 * i + 1 < rows) load_words(from + (2 * i + 1) * stride, words, second);
    evens[i] = (first & 0xffffu) | (second << 16);
    odds[i] = (first >> 16) | (second & 0xffff0000u);
  }
  transpose8(evens);
  transpose8(odds);
  for (int64_t i = 0; i < words; ++i) {
    std::memcpy(to + 2 * i * ldto, &evens[i], static_cast<size_t>(2 * rows));
    std::memcpy(to + (2 * i + 1) * ldto, &odds[i], static_cast<size_t>(2 * rows));
  }
}

// Calls emit(column, row, values, count) with up to 8 rows of each column of a matrix of words,
// (rows, columns); row i begins at from + i * stride, stride in bytes.
template <class Emit>
[[gnu::always_inline]] inline void transpose_blocks(const void* from, int64_t stride, int64_t rows,
                                                    int64_t columns, const Emit& emit) {
  const char* const bytes = static_cast<const char*>(from);
  for (int64_t i = 0; i < rows; i += 8) {
    const int64_t count = rows - i < 8 ? rows - i : 8;
    for (int64_t j = 0; j < columns; j += 8) {
      const int64_t width = columns - j < 8 ? columns - j : 8;
      Words8 block[8] = {};
      for (int64_t k = 0; k < count; ++k)
        load_words(bytes + (i + k) * stride + 4 * j, width, block[k]);
      transpose8(block);
      for (int64_t k = 0; k < width; ++k) emit(j + k, i, block[k], count);
    }
  }
}

[[gnu::always_inline]] inline void store_words(const Words8& from, int64_t count, void* to) {
  if (count == 8)
    *reinterpret_cast<Words8At*>(to) = from;
  else
    std::memcpy(to, &from, static_cast<size_t>(4 * count));
}

}  // namespace simd

// The transposed matrix (rows, d) as the right operand (d, rows) of a product. Words of BFloat16
// hold two numbers, so that pairs of rows are interleaved, as oneDNN wants them.
template <class T>
void transpose_words(const T* from, int64_t stride, int64_t rows, int64_t d, int64_t ldto, T* to) {
  constexpr int64_t kPerWord = 4 / sizeof(T);
  simd::dispatch([&]() __attribute__((always_inline)) {
    simd::transpose_blocks(
        from, stride * static_cast<int64_t>(sizeof(T)), rows, d / kPerWord,
        [&](int64_t column, int64_t row, const simd::Words8& values, int64_t count)
            __attribute__((always_inline)) {
              simd::store_words(values, count, to + (column * ldto + row) * kPerWord);
            });
  });
}

// The first `rows` columns of to (d, ldto) = the transposed matrix (rows, d). With BFloat16 d must
// be even.
template <class T>
void transpose_columns(const T* from, int64_t stride, int64_t rows, int64_t d, int64_t ldto,
                       T* to) {
  if constexpr (std::is_same_v<T, float>) {
    transpose_words<float>(from, stride, rows, d, ldto, to);
  } else {
    const auto* const bits = reinterpret_cast<const uint16_t*>(from);
    auto* const out = reinterpret_cast<uint16_t*>(to);
    simd::dispatch([&]() __attribute__((always_inline)) {
      int64_t i = 0;
      const auto block = [&](int64_t height, int64_t j, int64_t words)
          __attribute__((always_inline)) {
        simd::transpose16(bits + i * stride + j, stride, height, words, ldto, out + j * ldto + i);
      };
      const auto row_of_blocks = [&](int64_t height) __attribute__((always_inline)) {
        int64_t j = 0;
        for (; j + 16 <= d; j += 16) block(height, j, 8);
        if (j < d) block(height, j, (d - j) / 2);
      };
      // Constants make the copies single instructions.
      for (; i + 16 <= rows; i += 16) row_of_blocks(16);
      for (; i + 8 <= rows; i += 8) row_of_blocks(8);
      if (i < rows) row_of_blocks(rows - i);
    });
  }
}

// to (d, ldto) = the transposed matrix (rows, d); columns from `rows` on are 0.
template <class T>
void transpose(const T* from, int64_t stride, int64_t rows, int64_t d, int64_t ldto, T* to) {
  transpose_columns(from, stride, rows, d, ldto, to);
  for (int64_t i = 0; i < d; ++i)
    for (int64_t j = rows; j < ldto; ++j) to[i * ldto + j] = T(0.0f);
}

// Rows 2 i and 2 i + 1 of (rows, columns) become row i of (rows / 2, ldto) words. An odd last row
// gets a partner of zeros.
inline void pack_pairs(const c10::BFloat16* from, int64_t stride, int64_t rows, int64_t columns,
                       int64_t ldto, c10::BFloat16* to) {
  simd::dispatch([&](auto registers) __attribute__((always_inline)) {
    using Floats = typename decltype(registers)::Floats;
    for (int64_t i = 0; i < rows; i += 2) {
      const c10::BFloat16* const row = from + i * stride;
      c10::BFloat16* const out = to + i * ldto;
      for (int64_t j = 0; j < columns; j += simd::kLanes) {
        const int64_t count = columns - j;
        Floats first, second{};  // each number in the upper half of a word
        simd::load_some(row + j, count, first);
        if (i + 1 < rows) simd::load_some(row + stride + j, count, second);
        using Words = simd::WordsOf<Floats>;
        const Floats both = (Floats)((Words)second | ((Words)first >> 16));
        simd::store_some(both, count, reinterpret_cast<float*>(out + 2 * j));
      }
    }
  });
}
inline void pack_pairs(const float*, int64_t, int64_t, int64_t, int64_t, float*) {}  // not packed

// Rounds two rows (`columns`, a multiple of 16) to two rows of a product's right operand.
template <class T>
void store_row_pair(const float* first, const float* second, int64_t columns, T* to) {
  simd::dispatch([&](auto registers) __attribute__((always_inline)) {
    using Floats = typename decltype(registers)::Floats;
    for (int64_t j = 0; j < columns; j += simd::kLanes) {
      Floats a, b;
      simd::load(first + j, a);
      simd::load(second + j, b);
      if constexpr (std::is_same_v<T, float>) {
        simd::store(a, to + j);
        simd::store(b, to + columns + j);
      } else {
        T low[simd::kLanes], high[simd::kLanes];
        simd::store(a, low);
        simd::store(b, high);
        for (int64_t l = 0; l < simd::kLanes; ++l) {
          to[2 * (j + l)] = low[l];
          to[2 * (j + l) + 1] = high[l];
        }
      }
    }
  });
}

// to (rows, d) = the first `rows` columns of the matrix (d, ldfrom), transposed.
template <class T>
void store_transposed(const float* from, int64_t ldfrom, int64_t rows, int64_t d, T* to,
                      int64_t ldto) {
  simd::dispatch([&](auto registers) __attribute__((always_inline)) {
    using Floats = typename decltype(registers)::Floats;
    simd::transpose_blocks(
        from, 4 * ldfrom, d, rows,
        [&](int64_t column, int64_t row, const simd::Words8& values, int64_t count)
            __attribute__((always_inline)) {
              T* const place = to + column * ldto + row;
              if constexpr (std::is_same_v<T, float>) {
                simd::store_words(values, count, place);
              } else {
                Floats wide{};
                std::memcpy(&wide, &values, sizeof(values));
                simd::store_some(wide, count, place);
              }
            });
  });
}

}  // namespace bv
