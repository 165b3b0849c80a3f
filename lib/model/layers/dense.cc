#include "lib/model/layers/dense.h"

#include <utility>

#include "lib/model/layers/compute.h"
#include "lib/model/layers/stacked.h"

namespace bv {

Dense Dense::add(Module& owner, const std::string& name, int64_t in, int64_t out, Init kernel_init,
                 Init bias_init, int64_t layers) {
  return {add_stacked(owner, layers, name + "/kernel", {in, out}, std::move(kernel_init), {1, 0}),
          add_stacked(owner, layers, name + "/bias", {out}, std::move(bias_init))};
}

at::Tensor Dense::operator()(const at::Tensor& x, Pass& pass) const {
  return matmul(x, kernel, bias, compute_type(pass), pass);
}

at::Tensor Dense::head(const at::Tensor& x, Pass& pass) const {
  return matmul(x, kernel, bias, at::kFloat, pass);
}

}  // namespace bv
