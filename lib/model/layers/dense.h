#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "lib/model/init.h"
#include "lib/model/module.h"
#include "lib/model/pass.h"

namespace bv {

// y = x K + b over the last dimension.
struct Dense {
  at::Tensor kernel;  // (in, out), stored as (out, in)
  at::Tensor bias;    // (out)

  // Registers `name`/kernel and `name`/bias; `layers` as in lib/model/layers.h.
  static Dense add(Module& owner, const std::string& name, int64_t in, int64_t out,
                   Init kernel_init, Init bias_init = zeros(), int64_t layers = 0);
  // Maps (..., in) to (..., out) in pass.precision.
  at::Tensor operator()(const at::Tensor& x, Pass& pass) const;
  // The same in float32 whatever pass.precision says: for classification heads.
  at::Tensor head(const at::Tensor& x, Pass& pass) const;
  template <class F>
  void each(const F& f) {
    f(kernel);
    f(bias);
  }
};

}  // namespace bv
