// Layers that are stacked: one parameter with a leading axis holds the parameters of all of them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lib/model/init.h"
#include "lib/model/module.h"

namespace bv {

// Registers a parameter for `layers` stacked layers: (layers, shape...), each slice initialized
// on its own. With layers = 0 registers a plain parameter without the leading axis. `physical` is
// as in Module::add_parameter(), for the shape without the leading axis.
at::Tensor add_stacked(Module& owner, int64_t layers, const std::string& name,
                       std::vector<int64_t> shape, Init init, std::vector<int64_t> physical = {});

// Returns the single layers of a stack. `Weights` is a layer with a function each(f) that calls f
// on every parameter.
template <class Weights>
std::vector<Weights> unstack(Weights stacked, int64_t layers) {
  std::vector<std::vector<at::Tensor>> slices;
  stacked.each([&](at::Tensor& tensor) { slices.push_back(tensor.unbind(0)); });
  std::vector<Weights> all(layers, stacked);
  for (int64_t i = 0; i < layers; ++i) {
    size_t k = 0;
    all[i].each([&](at::Tensor& tensor) { tensor = slices[k++][i]; });
  }
  return all;
}

}  // namespace bv
