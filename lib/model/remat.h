// Rematerialisation (activation checkpointing): less memory for more time.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "lib/model/model.h"

namespace bv {

// A part of a model: a function of `inputs` and `pass` alone. Every tensor that gradients are
// wanted of is among the inputs, parameters too. It moves no running statistics.
using Part = std::function<at::Tensor(const std::vector<at::Tensor>& inputs, Pass& pass)>;

// part(inputs, pass), whose activations are not kept for backward but computed again there: between
// the two passes only the inputs stay in memory. The second computation starts from the same pass,
// so its random numbers are the same, and gradients are those of the plain call to the bit. While
// activations are collected (pass.features) or no gradient is wanted this is the plain call.
at::Tensor remat(const Part& part, const std::vector<at::Tensor>& inputs, Pass& pass);

}  // namespace bv
