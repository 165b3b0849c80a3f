// What a checkpoint holds, by name, as this rank has it: whole tensors, or a stretch of them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lib/ckpt/pieces.h"
#include "lib/ckpt/tensors.h"

namespace bv {

struct StatePart {
  std::string name;  // "params/head/kernel"
  // Whole: of the tensor's shape. Else (count): elements `first` and on, in the order of the memory
  // of a tensor of this shape and strides.
  at::Tensor values;
  bool whole = true;
  int64_t first = 0;
  std::vector<int64_t> shape = {}, strides = {};
};

// Fills `parts` from the tensors of the same names, which are whole or in pieces. Nothing is
// written unless each is there with the same shape and type, and there are no others that start
// with one of `prefixes`; else throws Error(Exit::usage) at `origin`, naming every missing,
// unexpected and differing tensor.
void copy_in(const std::vector<StatePart>& parts, const NamedTensors& from,
             const PiecedTensors& pieced, const std::vector<std::string>& prefixes,
             const std::string& origin);

}  // namespace bv
