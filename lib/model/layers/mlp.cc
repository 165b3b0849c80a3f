#include "lib/model/layers/mlp.h"

#include "lib/model/dropout.h"
#include "lib/model/kernels/device/device_linear.h"
#include "lib/model/kernels/device/device_token_mlp.h"
#include "lib/model/kernels/gelu.h"
#include "lib/model/layers/compute.h"

namespace bv {

Mlp Mlp::add(Module& owner, const std::string& name, int64_t features, int64_t hidden,
             int64_t layers) {
  const Init kernel = xavier_uniform(features, hidden), bias = normal(1e-6);
  return {Dense::add(owner, name + "/Dense_0", features, hidden, kernel, bias, layers),
          Dense::add(owner, name + "/Dense_1", hidden, features, kernel, bias, layers)};
}

MlpWeights Mlp::weights() const { return {in.kernel.t(), in.bias, out.kernel.t(), out.bias}; }

at::Tensor Mlp::operator()(const at::Tensor& x, double dropout_rate, Pass& pass) const {
  const bool drops = pass.train && dropout_rate > 0, bf16 = compute_type(pass) == at::kBFloat16;
  if (bf16 && !drops && x.size(-1) == in.kernel.size(0) && fits_device_linear(x, in.kernel) &&
      fits_device_linear(x, out.kernel)) {
    count_macs(pass, x.numel() / x.size(-1) * (in.kernel.numel() + out.kernel.numel()));
    return device_mlp(to_compute(x, pass), in.kernel, in.bias, out.kernel, out.bias, pass.train);
  }
  const at::Tensor computed = to_compute(x, pass);
  if (const MlpWeights weights = this->weights(); !drops && mlp_fits(computed, weights)) {
    count_macs(pass, x.numel() / x.size(-1) * (in.kernel.numel() + out.kernel.numel()));
    return mlp(computed, weights);
  }
  return out(dropout(tanh_gelu(in(x, pass)), dropout_rate, pass), pass);
}

at::Tensor Mlp::over_tokens(const at::Tensor& x, Pass& pass) const {
  const int64_t hidden = in.kernel.size(1);
  if (compute_type(pass) == at::kBFloat16 && device_token_mlp_fits(x, hidden)) {
    count_macs(pass, 2 * x.numel() * hidden);
    return device_token_mlp(x, in.kernel, in.bias, out.kernel, out.bias);
  }
  const at::Tensor computed = to_compute(x, pass);
  if (const MlpWeights weights = this->weights(); token_mlp_fits(computed, weights)) {
    count_macs(pass, 2 * x.numel() * hidden);
    return token_mlp(computed, weights);
  }
  return (*this)(x.transpose(1, 2), /*dropout_rate=*/0, pass).transpose(1, 2);
}

}  // namespace bv
