// Strings in an example. One string is its UTF-8 bytes as (length,) uint8. Several strings are
// (strings, longest) uint8, with zeros after the shorter ones.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>
#include <vector>

namespace bv {

// Returns whether the tensor is 1-d or 2-d uint8. This is true of encoded images, too.
bool is_text(const at::Tensor& tensor);
// Returns the string in a 1-d uint8 tensor, without zeros at its end.
std::string read_text(const at::Tensor& tensor);
// Returns the string in a 1-d uint8 tensor, or the strings in a 2-d one.
std::vector<std::string> read_texts(const at::Tensor& tensor);

at::Tensor text_tensor(std::string_view text);                  // 1-d
at::Tensor text_tensor(const std::vector<std::string>& texts);  // 2-d

}  // namespace bv
