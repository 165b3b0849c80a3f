// The names of dtypes in messages.
#pragma once

#include <c10/core/ScalarType.h>

#include <string>

namespace bv {

// Returns "float32", "int64", "uint8", ...: NumPy's names, which users know, not "Float".
inline std::string dtype_name(c10::ScalarType dtype) { return c10::getDtypeNames(dtype).first; }

}  // namespace bv
