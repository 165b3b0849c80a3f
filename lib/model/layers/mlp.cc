#include "lib/model/layers/mlp.h"

#include "lib/model/dropout.h"
#include "lib/model/kernels/gelu.h"

namespace bv {

Mlp Mlp::add(Module& owner, const std::string& name, int64_t features, int64_t hidden,
             int64_t layers) {
  const Init kernel = xavier_uniform(features, hidden), bias = normal(1e-6);
  return {Dense::add(owner, name + "/Dense_0", features, hidden, kernel, bias, layers),
          Dense::add(owner, name + "/Dense_1", hidden, features, kernel, bias, layers)};
}

at::Tensor Mlp::operator()(const at::Tensor& x, double dropout_rate, Pass& pass) const {
  return out(dropout(tanh_gelu(in(x, pass)), dropout_rate, pass), pass);
}

}  // namespace bv
