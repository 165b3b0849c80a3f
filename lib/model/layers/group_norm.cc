#include "lib/model/layers/group_norm.h"

#include <ATen/ops/group_norm.h>

#include "lib/model/init.h"

namespace bv {

GroupNorm GroupNorm::add(Module& owner, const std::string& name, int64_t channels, int64_t groups) {
  return {owner.add_parameter(name + "/scale", {channels}, ones()),
          owner.add_parameter(name + "/bias", {channels}, zeros()), groups};
}

at::Tensor GroupNorm::operator()(const at::Tensor& x) const {
  return at::group_norm(x, groups, scale, bias, 1e-6);
}

}  // namespace bv
