// The dtype and shape of a tensor as a string.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "lib/device/dtype_name.h"
#include "lib/util/text.h"

namespace bv {

// Returns "float32 (3, 4)".
inline std::string tensor_form(const at::Tensor& tensor) {
  return dtype_name(tensor.scalar_type()) + " " + shape_text(tensor.sizes());
}

}  // namespace bv
