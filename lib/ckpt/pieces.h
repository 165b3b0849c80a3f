// Tensors of which files hold stretches: what ranks save that have shared a state out.
//
// A piece is 1-d, in the order of the tensor's memory as its strides say (dense, outermost
// dimension anywhere); its name in a file is "<tensor>@<first element>".
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lib/ckpt/tensors.h"

namespace bv {

struct Piece {
  int64_t first = 0;  // element
  at::Tensor values;  // (count)
};

struct PiecedTensor {
  std::vector<int64_t> shape, strides;
  at::ScalarType type = at::kFloat;
  std::vector<Piece> pieces = {};  // by their first elements

  int64_t numel() const;
};
using PiecedTensors = std::map<std::string, PiecedTensor>;

// Whether `strides` are those of a tensor of `shape` that lies in memory without gaps, in whatever
// order of its dimensions; and that it has fewer than 2^60 elements.
bool dense_strides(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides);

std::string piece_name(const std::string& tensor, int64_t first);
// The tensor and the first element of "params/head/kernel@640"; "" where that is no piece's name.
std::pair<std::string, int64_t> parse_piece_name(const std::string& name);

// The whole tensor, in new memory of its strides. Its pieces cover it.
at::Tensor assemble(const PiecedTensor& tensor);
// Fills `to` (1-d) with elements first, first + 1, ... in the order of memory of `strides`: from a
// whole tensor, of whatever strides, or from pieces.
void copy_stretch(const at::Tensor& to, int64_t first, const std::vector<int64_t>& strides,
                  const at::Tensor& whole);
void copy_stretch(const at::Tensor& to, int64_t first, const std::vector<int64_t>& strides,
                  const PiecedTensor& from);

}  // namespace bv
