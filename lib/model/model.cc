// Layers' registration of parameters, their naming and their initialisation.
#include "lib/model/model.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/full.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lib/util/error.h"
#include "lib/util/rng.h"

namespace bv {
namespace {

thread_local int meta_depth = 0;
constexpr const char* kHeadBias = "head/bias";

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
    // Not by permute(): a view keeps its base, and with it this memory once it has moved elsewhere.
    std::vector<int64_t> strides(shape.size());
    int64_t stride = 1;
    for (size_t i = physical.size(); i-- > 0; stride *= shape.at(physical[i]))
      strides.at(physical[i]) = stride;
    tensor = at::empty_strided(shape, strides, options);
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

std::function<void(size_t)> parameter_init(const Model& model, uint64_t seed,
                                           std::optional<double> head_bias) {
  const auto& all = model.parameters();
  const bool head_found =
      std::any_of(all.begin(), all.end(),
                  [](const Layer::Parameter& parameter) { return parameter.name == kHeadBias; });
  if (head_bias && !head_found) {
    throw Error(Exit::usage, "",
                "init_head_bias is given, but the model has no parameter 'head/bias'");
  }
  return [&all, seed, head_bias](size_t i) {
    const Layer::Parameter& parameter = all.at(i);
    at::Tensor value = parameter.value;
    if (value.is_meta()) return;
    const c10::AutoGradMode no_grad(false);
    if (head_bias && parameter.name == kHeadBias)
      value.fill_(*head_bias);
    else
      parameter.init(value, hash64(fmt::format("{}/{}", seed, parameter.name)));
  };
}

void init_parameters(Model& model, uint64_t seed, std::optional<double> head_bias) {
  const auto init = parameter_init(model, seed, head_bias);
  for (size_t i = 0; i < model.parameters().size(); ++i) init(i);
}

MetaDevice::MetaDevice() { ++meta_depth; }
MetaDevice::~MetaDevice() { --meta_depth; }
bool MetaDevice::active() { return meta_depth > 0; }

}  // namespace bv
