// Layers: parameters by reference name and the formulas that use them (reference section 9).
//
// A layer is a small value that holds its parameters' tensors; add() registers them with the module
// that owns them, under `name`/... So a model is one module with flat names, and a stack of layers
// (vit's scan) is the same struct holding parameters with a leading axis, taken apart by unstack().
//
// Layouts: kernels have the reference's shapes and lie in memory as LibTorch's fast paths want
// them. Convolutional activations are (n, c, h, w) tensors in channels_last memory. Matmuls and
// convolutions compute in pass.precision and return that type; norms compute statistics in float32.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lib/model/init.h"
#include "lib/model/model.h"

namespace bv {

struct BatchStatistics;

// x in the type that matmuls and convolutions compute in.
at::Tensor to_compute(const at::Tensor& x, const Pass& pass);

// Registers a parameter of `layers` stacked slices (0: not stacked, no leading axis).
at::Tensor add_stacked(Layer& owner, int64_t layers, const std::string& name,
                       std::vector<int64_t> shape, Init init, std::vector<int64_t> physical = {});

// y = x K + b over the last dimension.
struct Dense {
  at::Tensor kernel;  // (in, out), in memory (out, in)
  at::Tensor bias;    // (out)

  static Dense add(Layer& owner, const std::string& name, int64_t in, int64_t out, Init kernel_init,
                   Init bias_init = zeros(), int64_t layers = 0);
  at::Tensor operator()(const at::Tensor& x, Pass& pass) const;
  // The same in float32, whatever pass.precision: classification heads.
  at::Tensor head(const at::Tensor& x, Pass& pass) const;
  template <class F>
  void each(const F& f) {
    f(kernel);
    f(bias);
  }
};

// Convolution with odd square kernels, stride 1, padding SAME.
struct Conv2d {
  at::Tensor kernel;  // (k, k, in, out), in memory (out, k, k, in)
  at::Tensor bias;    // (out), or undefined

  static Conv2d add(Layer& owner, const std::string& name, int64_t size, int64_t in, int64_t out,
                    Init kernel_init, bool with_bias);
  // (n, in, h, w) to (n, out, h, w)
  at::Tensor operator()(const at::Tensor& x, Pass& pass) const;
  // Then ReLU and an average pool of 2x2; the layer has a bias.
  at::Tensor relu_avg_pool(const at::Tensor& x, Pass& pass) const;
};

// Normalisation of (n, c, h, w) over n, h, w, then ReLU, then where asked a max pool of 2x2.
// Training uses the batch's statistics and moves the running ones by 1 - kMomentum; evaluation uses
// the running ones (buffers `name`/mean, `name`/var). Keeps the type of x.
struct BatchNorm {
  at::Tensor scale, bias;  // (c)
  at::Tensor mean, var;    // (c), buffers; var is the unbiased estimate

  static constexpr double kEps = 1e-5, kMomentum = 0.9;
  static BatchNorm add(Layer& owner, const std::string& name, int64_t channels);
  at::Tensor relu(const at::Tensor& x, bool max_pool, const Pass& pass) const;

 private:
  BatchStatistics training_statistics(const at::Tensor& x, const Pass& pass) const;
};

// Normalisation of (n, c, h, w) over h, w and the channels of a group, eps 1e-6. Keeps the type of
// x.
struct GroupNorm {
  at::Tensor scale, bias;  // (c)
  int64_t groups = 32;

  static GroupNorm add(Layer& owner, const std::string& name, int64_t channels, int64_t groups);
  at::Tensor operator()(const at::Tensor& x) const;
};

// Over the last dimension, eps 1e-6. Returns float32.
struct LayerNorm {
  at::Tensor scale, bias;  // (features)

  static LayerNorm add(Layer& owner, const std::string& name, int64_t features, int64_t layers = 0);
  at::Tensor operator()(const at::Tensor& x) const;
  template <class F>
  void each(const F& f) {
    f(scale);
    f(bias);
  }
};

// Multi-head attention; no dropout on its weights. D features, H heads.
struct Attention {
  Dense query, key, value;  // kernels (D, H, D/H), biases (H, D/H)
  Dense out;                // kernel (H, D/H, D), bias (D)

  static Attention add(Layer& owner, const std::string& name, int64_t features, int64_t heads,
                       int64_t layers = 0);
  // queries (n, lq, D), tokens (n, l, D): (n, lq, D)
  at::Tensor operator()(const at::Tensor& queries, const at::Tensor& tokens, Pass& pass) const;
  template <class F>
  void each(const F& f) {
    query.each(f);
    key.each(f);
    value.each(f);
    out.each(f);
  }
};

// Dense, GELU (tanh approximation), dropout, Dense.
struct Mlp {
  Dense in;   // (D, hidden)
  Dense out;  // (hidden, D)

  static Mlp add(Layer& owner, const std::string& name, int64_t features, int64_t hidden,
                 int64_t layers = 0);
  at::Tensor operator()(const at::Tensor& x, double dropout_rate, Pass& pass) const;
  template <class F>
  void each(const F& f) {
    in.each(f);
    out.each(f);
  }
};

// The slices of a layer whose parameters are stacked along a leading axis.
template <class Weights>
std::vector<Weights> unstack(Weights stacked, int64_t layers) {
  std::vector<std::vector<at::Tensor>> slices;
  stacked.each([&](at::Tensor& tensor) { slices.push_back(tensor.unbind(0)); });
  std::vector<Weights> all(layers, stacked);
  for (int64_t i = 0; i < layers; ++i) {
    size_t k = 0;
    all[i].each([&](at::Tensor& tensor) { tensor = slices[k++][i]; });
  }
  return all;
}

}  // namespace bv
