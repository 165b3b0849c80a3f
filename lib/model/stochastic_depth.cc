#include "lib/model/stochastic_depth.h"

#include <ATen/TensorOperators.h>

#include <vector>

#include "lib/model/dropout.h"

namespace bv {

at::Tensor stochastic_depth(const at::Tensor& y, double rate, Pass& pass) {
  if (!pass.train || rate == 0) return y;
  std::vector<int64_t> shape(static_cast<size_t>(y.dim()), 1);
  shape[0] = y.size(0);
  return y * random_mask(shape, rate, 1.0, y.options(), pass);
}

}  // namespace bv
