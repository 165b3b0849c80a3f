// Trees of tensors, as files and models hold them.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

namespace bv {

// Tensors by their path in the tree: "params/head/kernel", "opt/mu/head/kernel", "chrono/...".
using NamedTensors = std::map<std::string, at::Tensor>;

}  // namespace bv
