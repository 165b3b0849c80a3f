#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

namespace bv {

// One example, or (with a leading batch dimension on every tensor) several. Encoded images are 1-d
// uint8, decoded ones HWC; a label is a 0-d int64.
using Example = std::map<std::string, at::Tensor>;

}  // namespace bv
