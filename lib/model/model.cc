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

// torch's own recursion needs a module held by a shared_ptr; registries give unique_ptr.
template <class Visit>
void walk(const torch::nn::Module& module, const std::string& path, const Visit& visit) {
  visit(module, path);
  for (const auto& child : module.named_children()) {
    walk(*child.value(), path + child.key() + '/', visit);
  }
}

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
  inits_[name] = std::move(init);
  return register_parameter(name, tensor);
}

std::vector<std::pair<std::string, at::Tensor>> named_parameters(const Model& model) {
  std::vector<std::pair<std::string, at::Tensor>> all;
  walk(model, "", [&](const torch::nn::Module& module, const std::string& path) {
    for (const auto& entry : module.named_parameters(/*recurse=*/false)) {
      all.emplace_back(path + entry.key(), entry.value());
    }
  });
  return all;
}

std::vector<std::pair<std::string, at::Tensor>> named_buffers(const Model& model) {
  std::vector<std::pair<std::string, at::Tensor>> all;
  walk(model, "", [&](const torch::nn::Module& module, const std::string& path) {
    for (const auto& entry : module.named_buffers(/*recurse=*/false)) {
      all.emplace_back(path + entry.key(), entry.value());
    }
  });
  return all;
}

void init_parameters(Model& model, uint64_t seed, std::optional<double> head_bias) {
  const c10::AutoGradMode no_grad(false);
  bool head_found = false;
  walk(model, "", [&](const torch::nn::Module& module, const std::string& path) {
    const auto* layer = dynamic_cast<const Layer*>(&module);
    for (const auto& entry : module.named_parameters(/*recurse=*/false)) {
      const std::string name = path + entry.key();
      at::Tensor parameter = entry.value();
      const bool is_head_bias = name == "head/bias";
      head_found = head_found || is_head_bias;
      if (parameter.is_meta()) continue;
      check(layer != nullptr, "parameter {} is not registered by add_parameter", name);
      if (is_head_bias && head_bias) {
        parameter.fill_(*head_bias);
      } else {
        layer->inits().at(entry.key())(parameter, hash64(fmt::format("{}/{}", seed, name)));
      }
    }
  });
  if (head_bias && !head_found) {
    throw Error(Exit::usage, "",
                "init_head_bias is given, but the model has no parameter 'head/bias'");
  }
}

MetaDevice::MetaDevice() { ++meta_depth; }
MetaDevice::~MetaDevice() { --meta_depth; }
bool MetaDevice::active() { return meta_depth > 0; }

}  // namespace bv
