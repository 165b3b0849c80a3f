// What the maps of PyTorch's vits and mixers have in common: a PyTorch name or its pattern, the
// reference's name, and how the values are laid out.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lib/ckpt/layouts/layouts.h"

namespace bv {

enum class Layout {
  same,    // values as they are
  linear,  // (out, in) <-> (in, out); biases as they are
  split,   // a linear layer into heads: (D, D) <-> (D, H, D/H), bias (D) <-> (H, D/H)
  merge,   // a linear layer from heads: (D, D) <-> (H, D/H, D)
  patch,   // a convolution: (D, c, P, P) <-> (P, P, c, D)
};

// A layer (or a single tensor, where `weight` is null) in both worlds; "{}" is a block's number.
// Layers that hold several (qkv) have a row for each, with its `part` of `parts`.
struct NameRow {
  const char* torch;   // "blocks.{}.attn.qkv"
  const char* ours;    // "Transformer/encoderblock_{}/MultiHeadDotProductAttention_0/query"
  const char* weight;  // what PyTorch's "weight" is called here: kernel, scale; null: no suffix
  Layout layout = Layout::same;
  int part = 0, parts = 1;
};

// The number that stands for "{}" in `name`, "" where `pattern` has none; nullopt where `name` is
// not of that form.
std::optional<std::string> match_number(std::string_view pattern, std::string_view name);
// `pattern` with `number` for its "{}".
std::string with_number(std::string_view pattern, const std::string& number);

// `tree` by the reference's names: every tensor is split over the rows that match it, and tensors
// that match none keep their names.
NamedTensors from_torch(const NamedTensors& tree, std::span<const NameRow> rows, int64_t heads,
                        const std::string& origin);

// The other way: every name of `tree` must be in a row (check()).
NamedTensors to_torch(const NamedTensors& tree, std::span<const NameRow> rows);

}  // namespace bv
