// Two vectors that act as one of twice the length, for vectors that do not fit one register.
#pragma once

#include <cstdint>
#include <type_traits>

namespace bv::simd {

// V: a vector of GCC's and clang's extensions, or a Pair.
template <class V>
struct Pair {
  V low, high;

  // The same bits as another type.
  template <class W>
  [[gnu::always_inline]] explicit operator Pair<W>() const {
    return {(W)low, (W)high};
  }
  [[gnu::always_inline]] Pair operator~() const { return {~low, ~high}; }
  [[gnu::always_inline]] Pair operator-() const { return {-low, -high}; }
  template <class X>
  [[gnu::always_inline]] Pair& operator+=(const X& x) {
    return *this = *this + x;
  }
  template <class X>
  [[gnu::always_inline]] Pair& operator-=(const X& x) {
    return *this = *this - x;
  }
  template <class X>
  [[gnu::always_inline]] Pair& operator/=(const X& x) {
    return *this = *this / x;
  }
  template <class X>
  [[gnu::always_inline]] Pair& operator|=(const X& x) {
    return *this = *this | x;
  }
  template <class X>
  [[gnu::always_inline]] Pair& operator*=(const X& x) {
    return *this = *this * x;
  }
};

// A scalar operand is broadcast.
#define BV_PAIR_OPERATOR(op)                                                              \
  template <class V>                                                                      \
  [[gnu::always_inline]] inline Pair<V> operator op(const Pair<V>& a, const Pair<V>& b) { \
    return {a.low op b.low, a.high op b.high};                                            \
  }                                                                                       \
  template <class V, class X>                                                             \
  requires std::is_arithmetic_v<X>                                                        \
  [[gnu::always_inline]] inline Pair<V> operator op(const Pair<V>& a, X b) {              \
    return {a.low op b, a.high op b};                                                     \
  }                                                                                       \
  template <class V, class X>                                                             \
  requires std::is_arithmetic_v<X>                                                        \
  [[gnu::always_inline]] inline Pair<V> operator op(X a, const Pair<V>& b) {              \
    return {a op b.low, a op b.high};                                                     \
  }
BV_PAIR_OPERATOR(+)
BV_PAIR_OPERATOR(-)
BV_PAIR_OPERATOR(*)
BV_PAIR_OPERATOR(/)
BV_PAIR_OPERATOR(&)
BV_PAIR_OPERATOR(|)
BV_PAIR_OPERATOR(^)
BV_PAIR_OPERATOR(<<)
BV_PAIR_OPERATOR(>>)
#undef BV_PAIR_OPERATOR

template <class V>
constexpr bool kIsPair = false;
template <class V>
constexpr bool kIsPair<Pair<V>> = true;

// How many numbers of four bytes a vector has.
template <class V>
constexpr int64_t kCount = sizeof(V) / 4;

}  // namespace bv::simd
