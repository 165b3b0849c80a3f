#include "lib/model/layers/conv2d.h"

#include <utility>

#include "lib/model/kernels/conv.h"
#include "lib/model/kernels/conv_relu_avg_pool.h"
#include "lib/model/kernels/relu_avg_pool.h"
#include "lib/model/layers/compute.h"

namespace bv {

Conv2d Conv2d::add(Module& owner, const std::string& name, int64_t size, int64_t in, int64_t out,
                   Init kernel_init, bool with_bias) {
  return {owner.add_parameter(name + "/kernel", {size, size, in, out}, std::move(kernel_init),
                              {3, 0, 1, 2}),
          with_bias ? owner.add_parameter(name + "/bias", {out}, zeros()) : at::Tensor()};
}

at::Tensor Conv2d::operator()(const at::Tensor& x, Pass& pass) const {
  if (own_conv_fits(x, kernel, compute_type(pass))) {
    count_macs(pass, x.numel() * kernel.size(0) * kernel.size(0) * kernel.size(3));
    return own_conv(x, kernel, bias, compute_type(pass));
  }
  const int64_t pad = (kernel.size(0) - 1) / 2;
  return convolve(x, kernel.permute({3, 2, 0, 1}), bias, {1, 1}, {pad, pad}, pass);
}

at::Tensor Conv2d::relu_avg_pool(const at::Tensor& x, Pass& pass) const {
  if (!conv_relu_avg_pool_fits(x, kernel)) return bv::relu_avg_pool((*this)(x, pass));
  count_macs(pass, x.numel() * kernel.numel() / kernel.size(2));
  return conv_relu_avg_pool(x, kernel, bias, compute_type(pass));
}

}  // namespace bv
