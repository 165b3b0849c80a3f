// Reference implementation of the optimizers' rules, one tensor and one element at a time. Tests
// compare the fused pass with it.
#pragma once

#include <c10/util/BFloat16.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace bv::test {
using Values = std::vector<float>;

inline float bf16(float x) { return static_cast<float>(c10::BFloat16(x)); }
inline float same(float x) { return x; }

// A rule on one tensor: computes the update from the gradient, the number of earlier updates and
// the state.
struct PlainState {
  std::string name;  // of the parameter
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

// The Newton-Schulz iteration of lib/optim/optimizers/muon.cc for x, with rows of `columns`
// elements.
inline std::vector<double> plain_orthogonalised(std::vector<double> x, int64_t columns, int steps) {
  const int64_t rows = static_cast<int64_t>(x.size()) / columns;
  double squares = 0;
  for (const double value : x) squares += value * value;
  for (double& value : x) value /= std::sqrt(squares) + 1e-7;
  const auto product = [](const std::vector<double>& a, const std::vector<double>& b, int64_t n,
                          int64_t k, int64_t m) {  // (n, k) times (k, m)
    std::vector<double> c(n * m);
    for (int64_t i = 0; i < n * m; ++i) {
      for (int64_t j = 0; j < k; ++j) c[i] += a[i / m * k + j] * b[j * m + i % m];
    }
    return c;
  };
  for (int step = 0; step < steps; ++step) {
    std::vector<double> turned(x.size());
    for (int64_t i = 0; i < std::ssize(x); ++i) turned[i % columns * rows + i / columns] = x[i];
    const std::vector<double> a = product(x, turned, rows, columns, rows);
    const std::vector<double> aa = product(a, a, rows, rows, rows);
    const std::vector<double> ax = product(a, x, rows, rows, columns);
    const std::vector<double> aax = product(aa, x, rows, rows, columns);
    for (size_t i = 0; i < x.size(); ++i) x[i] = 3.4445 * x[i] - 4.7750 * ax[i] + 2.0315 * aax[i];
  }
  return x;
}

// Muon trains kernels; Adam trains `adam_for` and biases. TinyModel stores its kernels as (outputs,
// inputs).
inline PlainRule plain_muon(const std::string& adam_for, float momentum, bool nesterov, int steps,
                            bool match_adamw) {
  return [=](const Values& g, int count, PlainState& s) {
    if (s.shape.size() < 2 || s.name == adam_for)
      return plain_adam(0.9F, 0.999F, 1e-8F, false, false)(g, count, s);
    s.a.resize(g.size());
    std::vector<double> mixed(g.size());
    for (size_t i = 0; i < g.size(); ++i) {
      s.a[i] = momentum * s.a[i] + (1 - momentum) * g[i];
      mixed[i] = nesterov ? momentum * s.a[i] + (1 - momentum) * g[i] : s.a[i];
    }
    const auto out = static_cast<double>(s.shape[0]), in = static_cast<double>(s.shape[1]);
    const double scale =
        match_adamw ? 0.2 * std::sqrt(std::max(in, out)) : std::sqrt(std::max(1.0, out / in));
    Values u(g.size());
    const std::vector<double> x = plain_orthogonalised(mixed, s.shape[1], steps);
    for (size_t i = 0; i < u.size(); ++i) u[i] = static_cast<float>(scale * x[i]);
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
