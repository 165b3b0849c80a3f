#include "lib/model/layers/layer_norm.h"

#include "lib/model/init.h"
#include "lib/model/kernels/layer_norm.h"
#include "lib/model/layers/stacked.h"

namespace bv {

LayerNorm LayerNorm::add(Module& owner, const std::string& name, int64_t features, int64_t layers) {
  return {add_stacked(owner, layers, name + "/scale", {features}, ones()),
          add_stacked(owner, layers, name + "/bias", {features}, zeros())};
}

at::Tensor LayerNorm::operator()(const at::Tensor& x, at::ScalarType type) const {
  return layer_norm(x, scale, bias, 1e-6, type);
}

}  // namespace bv
