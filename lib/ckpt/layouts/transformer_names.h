// Tables that map the layers of PyTorch's vision transformers and mixers to ours: the name in
// PyTorch, the name in big_vision, and how the values are laid out.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lib/ckpt/layouts/layouts.h"

namespace bv {

// How the values of a layer are laid out: PyTorch <-> big_vision. D is the number of features, H of
// heads, P the size of a patch, c its channels.
enum class Layout {
  same,    // unchanged
  linear,  // kernel (out, in) <-> (in, out); bias unchanged
  split,   // a linear layer into heads: kernel (D, D) <-> (D, H, D/H), bias (D) <-> (H, D/H)
  merge,   // a linear layer from heads: kernel (D, D) <-> (H, D/H, D); bias unchanged
  patch,   // a convolution: (D, c, P, P) <-> (P, P, c, D)
};

// A layer in both programs, or a single tensor if `weight` is null. "{}" in a name stands for the
// number of a block. A layer of PyTorch that holds several of ours (qkv) has a row for each of
// them.
struct NameRow {
  const char* torch;   // "blocks.{}.attn.qkv"
  const char* ours;    // "Transformer/encoderblock_{}/MultiHeadDotProductAttention_0/query"
  const char* weight;  // what PyTorch's "weight" is called in big_vision: kernel or scale
  Layout layout = Layout::same;
  int part = 0, parts = 1;  // which part of PyTorch's tensors, along the first axis, this row is
};

// Returns the number for which "{}" stands in `name`, and "" if `pattern` has no "{}". nullopt if
// `name` does not match.
std::optional<std::string> match_number(std::string_view pattern, std::string_view name);
// Returns `pattern` with `number` in place of "{}".
std::string with_number(std::string_view pattern, const std::string& number);

// Converts a tree from PyTorch to big_vision: every tensor is split over the rows that match it.
// Tensors that match no row keep their names.
NamedTensors from_torch(const NamedTensors& tree, std::span<const NameRow> rows, int64_t heads,
                        const std::string& origin);

// Converts a tree from big_vision to PyTorch. Every name must match a row (check()).
NamedTensors to_torch(const NamedTensors& tree, std::span<const NameRow> rows);

}  // namespace bv
