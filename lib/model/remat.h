// Rematerialization (activation checkpointing): recomputes activations in the backward pass, which
// takes more time and less memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "lib/model/pass.h"

namespace bv {

// A part of a model. Its result may depend only on `inputs` and `pass`; every tensor that needs a
// gradient must be among the inputs, parameters included. It must not update running statistics.
using RematFunction = std::function<at::Tensor(const std::vector<at::Tensor>& inputs, Pass& pass)>;

// Returns function(inputs, pass) without keeping its activations for backward: between the two
// passes only the inputs stay in memory, and backward calls the function again. The second call
// gets a copy of the pass as it was before the first, so dropout draws the same masks, and
// gradients are bitwise those of a plain call. It is a plain call if activations are collected
// (pass.features) or if no gradient is needed.
at::Tensor remat(const RematFunction& function, const std::vector<at::Tensor>& inputs, Pass& pass);

}  // namespace bv
