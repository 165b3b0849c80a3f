#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>

namespace bv {

// Returns a file of at most 1 GiB as (n,) uint8. Throws Error::bare(Exit::data) "<failed>: <why>"
// if it cannot be read: "can't be read: no such file"; TooManyOpenFiles (lib/util/descriptor.h).
at::Tensor file_bytes(const std::string& file, std::string_view failed);

}  // namespace bv
