// Conversion between stacked encoder blocks (`scan: true`) and one subtree per block
// (models/vit.py, `load`).
#include <ATen/core/Tensor.h>
#include <ATen/ops/stack.h>

#include <string_view>

#include "lib/ckpt/layouts/layouts.h"
#include "lib/util/error.h"
#include "lib/util/limits.h"
#include "lib/util/text.h"

namespace bv {

namespace {

constexpr std::string_view kStacked = "Transformer/encoderblock/";
constexpr std::string_view kBlock = "Transformer/encoderblock_";

}  // namespace

NamedTensors stack_blocks(const NamedTensors& tree, const std::string& origin) {
  NamedTensors result;
  std::map<std::string, std::map<std::string, at::Tensor>> leaves;  // leaf -> number -> slice
  for (const auto& [name, value] : tree) {
    const size_t slash = name.find('/', kBlock.size());
    if (name.starts_with(kBlock) && slash != std::string::npos) {
      leaves[name.substr(slash + 1)][name.substr(kBlock.size(), slash - kBlock.size())] = value;
    } else {
      result.emplace(name, value);
    }
  }
  for (const auto& [leaf, slices] : leaves) {
    std::vector<at::Tensor> ordered;
    for (size_t i = 0; i < slices.size(); ++i) {
      const auto slice = slices.find(std::to_string(i));
      if (slice == slices.end()) {
        throw Error(Exit::usage, origin,
                    fmt::format("{}{}/{} is missing, but there are {} such blocks", kBlock, i, leaf,
                                slices.size()));
      }
      const at::Tensor& first = slices.at("0");
      const at::Tensor& value = slice->second;
      if (value.sizes() != first.sizes()) {  // types may differ: stack() takes the wider one
        throw Error(
            Exit::usage, origin,
            fmt::format("{}{}/{} has shape {}, but that of block 0 is {}: can't be stacked", kBlock,
                        i, leaf, shape_text(value.sizes()), shape_text(first.sizes())));
      }
      ordered.push_back(value);
    }
    put_new(result, std::string(kStacked) + leaf, at::stack(ordered), origin);
  }
  return result;
}

NamedTensors unstack_blocks(const NamedTensors& tree, const std::string& origin) {
  NamedTensors result;
  for (const auto& [name, value] : tree) {
    if (!name.starts_with(kStacked)) {
      put_new(result, name, value, origin);
      continue;
    }
    if (value.dim() == 0 || value.size(0) > limits::kStackedBlocks) {
      throw Error(Exit::usage, origin,
                  fmt::format("{} has shape {}: its first axis can't be the encoder blocks", name,
                              shape_text(value.sizes())));
    }
    const std::string leaf = name.substr(kStacked.size());
    for (int64_t i = 0; i < value.size(0); ++i) {
      put_new(result, fmt::format("{}{}/{}", kBlock, i, leaf), value.select(0, i), origin);
    }
  }
  return result;
}

}  // namespace bv
