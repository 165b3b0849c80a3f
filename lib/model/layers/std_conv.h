#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "lib/model/kernels/standardize.h"
#include "lib/model/module.h"
#include "lib/model/pass.h"

namespace bv {

// A convolution with weight standardization: the kernel is standardized over (height, width, in)
// for each output channel whenever it is used. The stored kernel, which is decayed and updated, is
// the one before standardization. There is no bias.
struct StdConv {
  using Rule = StandardizeRule;
  // same: TensorFlow's SAME, ceil(size / stride) outputs; if the padding is odd, its smaller half
  // is at the left and the top. symmetric: (k - 1) / 2 on each side.
  enum class Padding { same, symmetric };

  at::Tensor kernel;  // (k, k, in, out), stored as (out, k, k, in)
  int64_t stride = 1;
  Rule rule = Rule::bit;
  Padding padding = Padding::same;

  // Registers `name`/kernel, LeCun normal.
  static StdConv add(Module& owner, const std::string& name, int64_t size, int64_t in, int64_t out,
                     int64_t stride, Rule rule, Padding padding);
  // Maps (n, in, h, w) to (n, out, h', w') in pass.precision.
  at::Tensor operator()(const at::Tensor& x, Pass& pass) const;
};

}  // namespace bv
