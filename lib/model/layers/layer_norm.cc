#include "lib/model/layers/layer_norm.h"

#include "lib/model/init.h"
#include "lib/model/kernels/layer_norm.h"
#include "lib/model/layers/stacked.h"

namespace bv {
namespace {

constexpr double kEps = 1e-6;

}  // namespace

LayerNorm LayerNorm::add(Module& owner, const std::string& name, int64_t features, int64_t layers) {
  return {add_stacked(owner, layers, name + "/scale", {features}, ones()),
          add_stacked(owner, layers, name + "/bias", {features}, zeros())};
}

at::Tensor LayerNorm::operator()(const at::Tensor& x, at::ScalarType type) const {
  return layer_norm(x, scale, bias, kEps, type);
}

std::pair<at::Tensor, at::Tensor> LayerNorm::add(const at::Tensor& x, const at::Tensor& branch,
                                                 at::ScalarType type) const {
  return add_layer_norm(x, branch, scale, bias, kEps, type);
}

}  // namespace bv
