#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "lib/model/init.h"
#include "lib/model/module.h"
#include "lib/model/pass.h"

namespace bv {

// A convolution with a square kernel of odd size k, stride 1 and SAME padding.
struct Conv2d {
  at::Tensor kernel;  // (k, k, in, out), stored as (out, k, k, in)
  at::Tensor bias;    // (out), or undefined

  // Registers `name`/kernel and, if asked, `name`/bias, which starts at zero.
  static Conv2d add(Module& owner, const std::string& name, int64_t size, int64_t in, int64_t out,
                    Init kernel_init, bool with_bias);
  // Maps (n, in, h, w) to (n, out, h, w) in pass.precision.
  at::Tensor operator()(const at::Tensor& x, Pass& pass) const;
  // Convolution, ReLU and a 2x2 average pool: (n, out, h / 2, w / 2). The layer must have a bias.
  at::Tensor relu_avg_pool(const at::Tensor& x, Pass& pass) const;
};

}  // namespace bv
