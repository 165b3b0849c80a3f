// Text in an example: UTF-8 bytes as a 1-d uint8 tensor; several texts as a 2-d one, (texts,
// longest), with zeros behind the shorter ones.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>
#include <vector>

namespace bv {

// 1-d (an encoded image is so, too) or 2-d uint8.
bool is_text(const at::Tensor& tensor);
// One text, without the zeros at its end. tensor: 1-d uint8.
std::string read_text(const at::Tensor& tensor);
// One text, or a row of texts: 1-d or 2-d uint8.
std::vector<std::string> read_texts(const at::Tensor& tensor);

at::Tensor text_tensor(std::string_view text);                  // 1-d
at::Tensor text_tensor(const std::vector<std::string>& texts);  // 2-d

}  // namespace bv
