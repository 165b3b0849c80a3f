#include "lib/model/kernels/conv.h"

#include "lib/model/kernels/direct_conv.h"
#include "lib/model/kernels/winograd_conv.h"

namespace bv {

bool own_conv_fits(const at::Tensor& x, const at::Tensor& kernel, at::ScalarType type) {
  return direct_conv_fits(x, kernel, type) || winograd_conv_fits(x, kernel, type);
}

at::Tensor own_conv(const at::Tensor& x, const at::Tensor& kernel, const at::Tensor& bias,
                    at::ScalarType type) {
  if (direct_conv_fits(x, kernel, type)) return direct_conv(x, kernel, bias);
  return winograd_conv(x, kernel, bias, type);
}

}  // namespace bv
