// The optimizers' rules written as plainly as possible, one tensor and one element at a time. Tests
// compare the fused pass with them.
#pragma once

#include <c10/util/BFloat16.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

namespace bv::test {
using Values = std::vector<float>;

inline float bf16(float x) { return static_cast<float>(c10::BFloat16(x)); }
inline float same(float x) { return x; }

// A rule on one tensor: computes the update from the gradient, the number of earlier updates and
// the state.
struct PlainState {
  Values a, b, c;
  std::vector<int64_t> shape;
  Values params;
};
using PlainRule = std::function<Values(const Values& g, int count, PlainState&)>;

// Returns a rule that turns the direction u of another rule into factor * (u + weight_decay * p).
inline PlainRule scaled(float factor, PlainRule rule, float weight_decay = 0) {
  return [=](const Values& g, int count, PlainState& s) {
    Values u = rule(g, count, s);
    for (size_t i = 0; i < u.size(); ++i) u[i] = factor * (u[i] + weight_decay * s.params[i]);
    return u;
  };
}

// Adafactor for matrices and vectors. State: a is the momentum, b is v or the row means, c is the
// column means.
inline PlainRule plain_adafactor(int64_t min_dim, double cap, double momentum, bool rounded,
                                 double threshold) {
  return [=](const Values& g, int count, PlainState& s) {
    const auto b2 = static_cast<float>(std::min(cap, 1 - std::pow(count + 1.0, -0.8)));
    const bool factored = s.shape.size() == 2 && std::min(s.shape[0], s.shape[1]) >= min_dim;
    const auto keep = rounded ? bf16 : same;
    Values u(g.size());
    s.a.resize(g.size());
    if (factored) {
      const int64_t rows = s.shape[0], columns = s.shape[1];
      // "row" means are over the largest dimension: the second, unless the first is larger.
      const bool second = columns >= rows;
      const int64_t large = second ? columns : rows, small = second ? rows : columns;
      const auto at = [&](int64_t i, int64_t k) {
        return second ? i * columns + k : k * columns + i;
      };
      std::vector<double> row(small), col(large);
      for (int64_t i = 0; i < small; ++i) {
        for (int64_t k = 0; k < large; ++k) {
          const double q = static_cast<double>(g[at(i, k)]) * g[at(i, k)] + 1e-30;
          row[i] += q / large;
          col[k] += q / small;
        }
      }
      s.b.resize(small);
      s.c.resize(large);
      double mean = 0;
      for (int64_t i = 0; i < small; ++i) {
        s.b[i] = b2 * s.b[i] + (1 - b2) * static_cast<float>(row[i]);
        mean += s.b[i] / small;
      }
      for (int64_t k = 0; k < large; ++k)
        s.c[k] = b2 * s.c[k] + (1 - b2) * static_cast<float>(col[k]);
      for (int64_t i = 0; i < small; ++i) {
        for (int64_t k = 0; k < large; ++k) {
          u[at(i, k)] =
              static_cast<float>(g[at(i, k)] / std::sqrt(s.b[i] / mean) / std::sqrt(s.c[k]));
        }
      }
    } else {
      s.b.resize(g.size());
      for (size_t i = 0; i < g.size(); ++i) {
        s.b[i] = b2 * s.b[i] + (1 - b2) * (g[i] * g[i] + 1e-30F);
        u[i] = g[i] / std::sqrt(s.b[i]);
      }
    }
    double squares = 0;
    for (float x : u) squares += static_cast<double>(x) * x;
    const double rms = std::sqrt(squares / u.size());
    const auto m = static_cast<float>(momentum);
    for (size_t i = 0; i < u.size(); ++i) {
      if (threshold > 0) u[i] /= static_cast<float>(std::max(1.0, rms / threshold));
      if (momentum == 0) continue;
      u[i] = (1 - m) * u[i] + keep(m) * s.a[i];
      s.a[i] = keep(u[i]);
    }
    return u;
  };
}

inline PlainRule plain_adam(float b1, float b2, float eps, bool rounded, bool nesterov) {
  return [=](const Values& g, int count, PlainState& s) {
    s.a.resize(g.size());
    s.b.resize(g.size());
    Values u(g.size());
    const double k = count + 1;
    const auto c1 = static_cast<float>(1 - std::pow(static_cast<double>(b1), k));
    const auto c1_next = static_cast<float>(1 - std::pow(static_cast<double>(b1), k + 1));
    const auto c2 = static_cast<float>(1 - std::pow(static_cast<double>(b2), k));
    const auto keep = rounded ? bf16 : same;
    for (size_t i = 0; i < g.size(); ++i) {
      const float m = (1 - b1) * g[i] + keep(b1) * s.a[i];
      s.b[i] = (1 - b2) * g[i] * g[i] + b2 * s.b[i];
      s.a[i] = keep(m);
      const float top = nesterov ? b1 * (m / c1_next) + (1 - b1) * (g[i] / c1) : m / c1;
      u[i] = top / (std::sqrt(s.b[i] / c2) + eps);
    }
    return u;
  };
}

inline PlainRule plain_momentum(float momentum, bool rounded, bool nesterov) {
  return [=](const Values& g, int, PlainState& s) {
    s.a.resize(g.size());
    Values u(g.size());
    const auto keep = rounded ? bf16 : same;
    for (size_t i = 0; i < g.size(); ++i) {
      const float t = g[i] + keep(momentum) * s.a[i];
      s.a[i] = keep(t);
      u[i] = nesterov ? g[i] + momentum * t : t;
    }
    return u;
  };
}

}  // namespace bv::test
