#include "lib/input/sources/common/array_source.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>

#include "lib/input/sources/common/label_order.h"

namespace bv {
namespace {

// Returns the rows `indices` of `array` (n, ...), stacked.
at::Tensor take(const at::Tensor& array, std::span<const int64_t> indices) {
  std::vector<int64_t> shape = array.sizes().vec();
  const int64_t rows = shape.at(0);
  shape[0] = static_cast<int64_t>(indices.size());
  at::Tensor out = at::empty(shape, array.options());
  // Not the stride, which is not 0 for empty rows.
  const size_t row_bytes = rows > 0 ? array.nbytes() / rows : 0;
  const auto* from = static_cast<const char*>(array.const_data_ptr());
  auto* to = static_cast<char*>(out.mutable_data_ptr());
  for (const int64_t index : indices) {
    check(index >= 0 && index < rows, "row {} of {}", index, rows);
    if (row_bytes > 0) std::memcpy(to, from + index * row_bytes, row_bytes);
    to += row_bytes;
  }
  return out;
}

}  // namespace

const Example& ArraySource::arrays(size_t split) const {
  const std::lock_guard lock(mutex_);
  const auto found = loaded_.find(split);
  if (found != loaded_.end()) return found->second;
  Example arrays = load(split);
  check(!arrays.empty(), "a source without arrays");
  const int64_t rows = arrays.begin()->second.size(0);
  for (auto& [key, array] : arrays) {
    check(array.size(0) == rows, "array '{}' has {} rows, not {}", key, array.size(0), rows);
    array = array.contiguous();
  }
  return loaded_.emplace(split, std::move(arrays)).first->second;
}

int64_t ArraySource::size(size_t split) const { return arrays(split).begin()->second.size(0); }

Example ArraySource::read(size_t split, int64_t index) const {
  Example example = read_batch(split, {&index, 1});
  for (auto& [key, array] : example) array = array.squeeze(0);
  return example;
}

Example ArraySource::read_batch(size_t split, std::span<const int64_t> indices) const {
  Example batch;
  for (const auto& [key, array] : arrays(split)) batch[key] = take(array, indices);
  return batch;
}

at::Tensor ArraySource::labels(size_t split) const {
  const Example& all = arrays(split);
  const auto found = all.find("label");
  const bool usable =
      found != all.end() && found->second.dim() == 1 && found->second.scalar_type() == at::kLong;
  return usable ? found->second : at::Tensor();
}

bool ArraySource::sorted_by_class(size_t split) const { return in_order_of_classes(labels(split)); }

bool is_class_column(std::string_view name, at::IntArrayRef shape, at::ScalarType type) {
  return name == "label" && shape.size() == 2 && shape[1] == 1 &&
         at::isIntegralType(type, /*includeBool=*/false);
}

}  // namespace bv
