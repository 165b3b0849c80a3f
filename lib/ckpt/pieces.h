// Tensors that are stored in pieces: the state of a sharded run, of which each rank saves a part.
//
// A piece is a range of the elements of a tensor, in the order in which its strides lay them out in
// memory (dense, but the dimensions may be permuted). In a file it is a 1-d tensor with the name
// "<tensor>@<first element>".
//
// The words for parts of the state, and where they are used:
//   segment    parameters that are cut up together (FlatParams::Segment, ShardedUnits)
//   shard      one rank's share of a segment; all shards of a segment have the same size
//   slice      the elements of one parameter, or of its optimizer state, that a rank's buffer holds
//              (FlatParams::Slice, StatePart)
//   piece      a slice as a checkpoint stores it (this file, Snapshot, Restored)
//   part file  part-<rank>.json: while a checkpoint is being written, it informs rank 0 about the
//              file of another rank (Checkpointer, part_name())
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lib/ckpt/tensors.h"

namespace bv {

struct Piece {
  int64_t first = 0;  // the index of its first element
  at::Tensor values;  // (count)
};

struct PiecedTensor {
  std::vector<int64_t> shape, strides;
  at::ScalarType type = at::kFloat;
  std::vector<Piece> pieces = {};  // sorted by `first`

  int64_t numel() const;
};
using PiecedTensors = std::map<std::string, PiecedTensor>;

// Returns whether `strides` lay out a tensor of `shape` without gaps, in any order of its
// dimensions, and the tensor has at least one and at most 2^60 elements.
bool dense_strides(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides);

std::string piece_name(const std::string& tensor, int64_t first);
// Returns {"params/head/kernel", 640} for "params/head/kernel@640", and {"", 0} for a name that is
// not the name of a piece. That includes names with a number of 2^60 or more.
std::pair<std::string, int64_t> parse_piece_name(const std::string& name);

// Returns the whole tensor in new memory with its strides. The pieces must cover it.
at::Tensor assemble(const PiecedTensor& tensor);

// Fills `to` (1-d) with the elements first, first + 1, ... in the memory order of `strides`. The
// source is a whole tensor of any strides, or the pieces of one.
void copy_range(const at::Tensor& to, int64_t first, const std::vector<int64_t>& strides,
                const at::Tensor& whole);
void copy_range(const at::Tensor& to, int64_t first, const std::vector<int64_t>& strides,
                const PiecedTensor& from);

}  // namespace bv
