// The tensors of a training state as one rank holds them, and copying a checkpoint into them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lib/ckpt/pieces.h"
#include "lib/ckpt/tensors.h"

namespace bv {

// What this rank holds of the tensor `name` ("params/head/kernel"): all of it, or a slice.
struct StatePart {
  std::string name;
  // whole: a tensor of the full shape. Otherwise (count): the elements from `first` on, in memory
  // order of a tensor of this shape and these strides.
  at::Tensor values;
  bool whole = true;
  int64_t first = 0;
  std::vector<int64_t> shape = {}, strides = {};  // of the full tensor; unused if `whole`
};

// Fills `parts` from the tensors of the same names in `from` (whole) or `pieced` (in pieces).
// Throws Error(Exit::usage) at `origin`, and writes nothing, if a tensor is missing, has another
// shape or dtype, or if the checkpoint has other tensors whose names start with one of `prefixes`.
// The message lists them all.
void copy_in(const std::vector<StatePart>& parts, const NamedTensors& from,
             const PiecedTensors& pieced, const std::vector<std::string>& prefixes,
             const std::string& origin);

// The same for whole tensors: each pair is a name and the tensor to fill.
void copy_in(const std::vector<std::pair<std::string, at::Tensor>>& views, const NamedTensors& from,
             const std::vector<std::string>& prefixes, const std::string& origin);

}  // namespace bv
