// Layers' registration of parameters, their naming and their initialisation.
#include "lib/model/model.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <utility>

#include "lib/util/error.h"
#include "lib/util/rng.h"

namespace bv {
namespace {

thread_local int meta_depth = 0;

}  // namespace

at::Tensor Layer::add_parameter(const std::string& name, std::vector<int64_t> shape, Init init,
                                std::vector<int64_t> physical) {
  const auto options =
      at::TensorOptions(at::kFloat).device(MetaDevice::active() ? at::kMeta : at::kCPU);
  at::Tensor tensor;
  if (physical.empty()) {
    tensor = at::empty(shape, options);
  } else {
    check(physical.size() == shape.size(), "parameter {}: {} dimensions, {} in the physical order",
          name, shape.size(), physical.size());
    std::vector<int64_t> sizes, logical(shape.size());
    for (size_t i = 0; i < physical.size(); ++i) {
      sizes.push_back(shape.at(physical[i]));
      logical.at(physical[i]) = static_cast<int64_t>(i);
    }
    tensor = at::empty(sizes, options).permute(logical);
  }
  for (const Parameter& other : parameters_) check(other.name != name, "two parameters {}", name);
  tensor.set_requires_grad(true);
  parameters_.push_back({name, tensor, std::move(init)});
  return tensor;
}

at::Tensor Layer::add_buffer(const std::string& name, at::Tensor value) {
  return buffers_.emplace_back(name, std::move(value)).second;
}

Layer::Named named_parameters(const Model& model) {
  Layer::Named all;
  for (const auto& parameter : model.parameters())
    all.emplace_back(parameter.name, parameter.value);
  return all;
}

Layer::Named named_buffers(const Model& model) { return model.buffers(); }

void init_parameters(Model& model, uint64_t seed, std::optional<double> head_bias) {
  const c10::AutoGradMode no_grad(false);
  bool head_found = false;
  for (const auto& parameter : model.parameters()) {
    const bool is_head_bias = parameter.name == "head/bias";
    head_found = head_found || is_head_bias;
    at::Tensor value = parameter.value;
    if (value.is_meta()) continue;
    if (is_head_bias && head_bias) {
      value.fill_(*head_bias);
    } else {
      parameter.init(value, hash64(fmt::format("{}/{}", seed, parameter.name)));
    }
  }
  if (head_bias && !head_found) {
    throw Error(Exit::usage, "",
                "init_head_bias is given, but the model has no parameter 'head/bias'");
  }
}

MetaDevice::MetaDevice() { ++meta_depth; }
MetaDevice::~MetaDevice() { --meta_depth; }
bool MetaDevice::active() { return meta_depth > 0; }

}  // namespace bv
