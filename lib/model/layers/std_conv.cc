#include "lib/model/layers/std_conv.h"

#include <ATen/ops/constant_pad_nd.h>

#include <algorithm>
#include <vector>

#include "lib/model/init.h"
#include "lib/model/kernels/conv.h"
#include "lib/model/layers/compute.h"

namespace bv {

StdConv StdConv::add(Module& owner, const std::string& name, int64_t size, int64_t in, int64_t out,
                     int64_t stride, Rule rule, Padding padding) {
  return {owner.add_parameter(name + "/kernel", {size, size, in, out},
                              lecun_normal(size * size * in), {3, 0, 1, 2}),
          stride, rule, padding};
}

at::Tensor StdConv::operator()(const at::Tensor& x, Pass& pass) const {
  const at::ScalarType type = compute_type(pass);
  const at::Tensor standard = standardize(kernel, rule, weight_type(x, pass));
  if (stride == 1 && own_conv_fits(x, standard, type)) {
    count_macs(pass, x.numel() * kernel.size(0) * kernel.size(0) * kernel.size(3));
    return own_conv(x, standard, /*bias=*/{}, type);
  }
  const at::Tensor weight = standard.permute({3, 2, 0, 1});  // (out, in, k, k)
  const int64_t size = kernel.size(0);
  at::Tensor input = to_compute(x, pass);
  std::vector<int64_t> pads(2, (size - 1) / 2);  // top and bottom, left and right
  if (padding == Padding::same) {
    const auto total = [&](int64_t extent) {
      return std::max<int64_t>(((extent + stride - 1) / stride - 1) * stride + size - extent, 0);
    };
    const int64_t rows = total(x.size(2)), columns = total(x.size(3));
    pads = {rows / 2, columns / 2};
    if (rows % 2 != 0 || columns % 2 != 0) {
      pads = {0, 0};
      input = at::constant_pad_nd(
          input, {columns / 2, columns - columns / 2, rows / 2, rows - rows / 2}, 0);
    }
  }
  return convolve(input, weight, /*bias=*/{}, {stride, stride}, pads, pass);
}

}  // namespace bv
