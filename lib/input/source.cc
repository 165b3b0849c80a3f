#include "lib/input/source.h"

#include <ATen/ops/stack.h>

namespace bv {

Example Source::read_batch(size_t split, std::span<const int64_t> indices) const {
  std::map<std::string, std::vector<at::Tensor>> parts;
  for (const int64_t index : indices) {
    for (auto& [key, tensor] : read(split, index)) parts[key].push_back(tensor);
  }
  Example batch;
  for (const auto& [key, tensors] : parts) batch[key] = at::stack(tensors);
  return batch;
}

at::Tensor Source::labels(size_t split) const { return {}; }

FileNotes Source::file_notes(size_t split) const { return {}; }

std::string Source::describe(size_t split, int64_t index) const {
  return fmt::format("{} row {}", splits().at(split), index);
}

}  // namespace bv
