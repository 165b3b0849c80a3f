#include "lib/model/layers/layer_norm.h"

#include <ATen/ops/layer_norm.h>

#include "lib/model/init.h"
#include "lib/model/layers/stacked.h"

namespace bv {

LayerNorm LayerNorm::add(Module& owner, const std::string& name, int64_t features, int64_t layers) {
  return {add_stacked(owner, layers, name + "/scale", {features}, ones()),
          add_stacked(owner, layers, name + "/bias", {features}, zeros())};
}

at::Tensor LayerNorm::operator()(const at::Tensor& x) const {
  return at::layer_norm(x.to(at::kFloat), {x.size(-1)}, scale, bias, 1e-6);
}

}  // namespace bv
