#include "lib/model/model.h"

#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "lib/util/error.h"
#include "lib/util/rng.h"

namespace bv {
namespace {

constexpr const char* kHeadBias = "head/bias";
constexpr const char* kLearnedPositions = "pos_embedding";

bool has_parameter(const Model& model, std::string_view name) {
  const auto& all = model.parameters();
  return std::any_of(all.begin(), all.end(),
                     [&](const Module::Parameter& parameter) { return parameter.name == name; });
}

}  // namespace

Module::Named named_parameters(const Model& model) {
  Module::Named all;
  for (const auto& parameter : model.parameters())
    all.emplace_back(parameter.name, parameter.value);
  return all;
}

Module::Named named_buffers(const Model& model) { return model.buffers(); }

bool weights_fit_places(const Model& model, int64_t height, int64_t width, bool resampled) {
  if (model.takes_size(height, width)) return true;
  return model.position_grid().size() > 0 &&
         (resampled || !has_parameter(model, kLearnedPositions));
}

std::function<void(size_t)> parameter_init(const Model& model, uint64_t seed,
                                           std::optional<double> head_bias) {
  const auto& all = model.parameters();
  if (head_bias && !has_parameter(model, kHeadBias)) {
    throw Error(Exit::usage, "",
                "init_head_bias is given, but the model has no parameter 'head/bias'");
  }
  return [&all, seed, head_bias](size_t i) {
    const Module::Parameter& parameter = all.at(i);
    at::Tensor value = parameter.value;
    if (value.is_meta()) return;
    const c10::AutoGradMode no_grad(false);
    if (head_bias && parameter.name == kHeadBias)
      value.fill_(*head_bias);
    else
      parameter.init(value, hash64(fmt::format("{}/{}", seed, parameter.name)));
  };
}

void move_to(c10::Device device, Model& model) {
  const c10::AutoGradMode no_grad(false);
  for (const Module::Named& all : {named_parameters(model), named_buffers(model)}) {
    for (const auto& [name, value] : all) {
      if (value.device() != device) value.set_data(value.to(device));
    }
  }
}

void init_parameters(Model& model, uint64_t seed, std::optional<double> head_bias) {
  const auto init = parameter_init(model, seed, head_bias);
  for (size_t i = 0; i < model.parameters().size(); ++i) init(i);
}

}  // namespace bv
