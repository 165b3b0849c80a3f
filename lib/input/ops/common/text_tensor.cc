#include "lib/input/ops/common/text_tensor.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstring>

namespace bv {

bool is_text(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kByte && (tensor.dim() == 1 || tensor.dim() == 2);
}

std::string read_text(const at::Tensor& tensor) {
  const at::Tensor bytes = tensor.contiguous();
  std::string text(static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes());
  text.resize(text.find_last_not_of('\0') + 1);
  return text;
}

std::vector<std::string> read_texts(const at::Tensor& tensor) {
  if (tensor.dim() == 1) return {read_text(tensor)};
  std::vector<std::string> texts;
  for (int64_t i = 0; i < tensor.size(0); ++i) texts.push_back(read_text(tensor.select(0, i)));
  return texts;
}

at::Tensor text_tensor(std::string_view text) {
  at::Tensor tensor = at::zeros({static_cast<int64_t>(text.size())}, at::kByte);
  if (!text.empty()) std::memcpy(tensor.mutable_data_ptr(), text.data(), text.size());
  return tensor;
}

at::Tensor text_tensor(const std::vector<std::string>& texts) {
  size_t longest = 0;
  for (const std::string& text : texts) longest = std::max(longest, text.size());
  at::Tensor tensor =
      at::zeros({static_cast<int64_t>(texts.size()), static_cast<int64_t>(longest)}, at::kByte);
  auto* row = static_cast<char*>(tensor.mutable_data_ptr());
  for (const std::string& text : texts) {
    // Rows of bytes, without an end mark.  NOLINTNEXTLINE(bugprone-not-null-terminated-result)
    if (!text.empty()) std::memcpy(row, text.data(), text.size());
    row += longest;
  }
  return tensor;
}

}  // namespace bv
