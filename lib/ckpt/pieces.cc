#include "lib/ckpt/pieces.h"

#include <ATen/ops/empty_strided.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string_view>

#include "lib/util/limits.h"
#include "lib/util/parse_count.h"

namespace bv {

int64_t PiecedTensor::numel() const {
  int64_t elements = 1;
  for (const int64_t size : shape) elements *= size;
  return elements;
}

bool dense_strides(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides) {
  if (shape.size() != strides.size()) return false;
  std::vector<size_t> order(shape.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(strides[a], shape[a]) < std::pair(strides[b], shape[b]);
  });
  int64_t elements = 1;
  for (const size_t i : order) {
    if (shape[i] < 1 || shape[i] > limits::kTensorElements / elements) return false;
    // The stride of a dimension of size 1 does not matter.
    if (shape[i] > 1 && strides[i] != elements) return false;
    elements *= shape[i];
  }
  return true;
}

std::string piece_name(const std::string& tensor, int64_t first) {
  return fmt::format("{}@{}", tensor, first);
}

std::pair<std::string, int64_t> parse_piece_name(const std::string& name) {
  const size_t mark = name.rfind('@');
  if (mark == std::string::npos) return {"", 0};
  const auto first = parse_count(std::string_view(name).substr(mark + 1));
  if (!first || *first >= limits::kTensorElements) return {"", 0};  // first + count overflows
  return {name.substr(0, mark), *first};
}

at::Tensor assemble(const PiecedTensor& tensor) {
  const at::Tensor whole = at::empty_strided(tensor.shape, tensor.strides, tensor.type);
  copy_range(whole.as_strided({tensor.numel()}, {1}), 0, tensor.strides, tensor);
  return whole;
}

void copy_range(const at::Tensor& to, int64_t first, const std::vector<int64_t>& strides,
                const at::Tensor& whole) {
  if (to.numel() == 0) return;
  at::Tensor ordered = whole;
  if (whole.strides() != at::IntArrayRef(strides) || !whole.is_non_overlapping_and_dense()) {
    ordered = at::empty_strided(whole.sizes(), strides, whole.options());
    ordered.copy_(whole);
  }
  to.copy_(ordered.as_strided({to.numel()}, {1}, ordered.storage_offset() + first));
}

void copy_range(const at::Tensor& to, int64_t first, const std::vector<int64_t>& strides,
                const PiecedTensor& from) {
  if (strides != from.strides) return copy_range(to, first, strides, assemble(from));
  const int64_t end = first + to.numel();
  for (const Piece& piece : from.pieces) {
    const int64_t a = std::max(first, piece.first);
    const int64_t b = std::min(end, piece.first + piece.values.numel());
    if (a < b) to.narrow(0, a - first, b - a).copy_(piece.values.narrow(0, a - piece.first, b - a));
  }
}

}  // namespace bv
