#include "lib/input/sources/common/packed_text.h"

#include <cstring>

namespace bv {

void PackedText::number(uint64_t value) {
  text_.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void PackedText::text(std::string_view value) {
  number(value.size());
  text_.append(value);
}

void PackedText::texts(const std::vector<std::string>& values) {
  number(values.size());
  for (const std::string& value : values) text(value);
}

void UnpackedText::copy(std::string_view from, void* to, size_t bytes) {
  if (bytes > 0) std::memcpy(to, from.data(), bytes);
}

uint64_t UnpackedText::number() {
  uint64_t value = 0;
  if (rest_.size() < sizeof(value)) {
    failed_ = true;
    return 0;
  }
  copy(rest_, &value, sizeof(value));
  rest_.remove_prefix(sizeof(value));
  return value;
}

std::string_view UnpackedText::text() {
  const uint64_t size = number();
  if (failed_ || size > rest_.size()) {
    failed_ = true;
    return {};
  }
  const std::string_view value = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return value;
}

std::vector<std::string> UnpackedText::texts() {
  std::vector<std::string> values;
  for (uint64_t count = number(); count > 0 && !failed_; --count) values.emplace_back(text());
  return values;
}

}  // namespace bv
