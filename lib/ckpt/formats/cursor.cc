#include "lib/ckpt/formats/cursor.h"

#include <algorithm>

#include "lib/util/limits.h"

namespace bv {

char Cursor::next() {
  const char c = peek();
  if (position_ < text_.size()) ++position_;
  return c;
}

void Cursor::skip_blanks() {
  while (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r') ++position_;
}

bool Cursor::take(char wanted) {
  skip_blanks();
  if (position_ >= text_.size() || peek() != wanted) return false;
  ++position_;
  return true;
}

bool Cursor::take_word(std::string_view wanted) {
  skip_blanks();
  if (text_.substr(position_, wanted.size()) != wanted) return false;
  position_ += wanted.size();
  return true;
}

void Cursor::expect(char wanted) {
  if (!take(wanted)) fail(fmt::format("expected '{}', got {}", wanted, got()));
}

void Cursor::expect_end() {
  skip_blanks();
  if (position_ < text_.size()) fail(fmt::format("expected the end, got {}", got()));
}

int64_t Cursor::integer() {
  skip_blanks();
  const size_t begin = position_;
  int64_t value = 0;
  while (peek() >= '0' && peek() <= '9') {
    const int digit = next() - '0';
    if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, digit, &value)) {
      fail_at(begin, "integer of 2^63 or more");
    }
  }
  if (position_ == begin) fail(fmt::format("expected a non-negative integer, got {}", got()));
  if (text_[begin] == '0' && position_ > begin + 1) fail_at(begin, "integer with a leading zero");
  return value;
}

std::string_view Cursor::quoted(char quote) {
  skip_blanks();
  const size_t begin = position_;
  expect(quote);
  while (position_ < text_.size()) {
    const char c = next();
    if (c == '\\') next();
    if (c == quote) return text_.substr(begin, position_ - begin);
  }
  fail_at(begin, "string without an end");
}

std::string Cursor::got() const {
  if (position_ >= text_.size()) return "the end";
  const auto c = static_cast<unsigned char>(peek());
  return c >= 0x20 && c < 0x7f ? fmt::format("'{}'", peek()) : fmt::format("byte 0x{:02x}", c);
}

std::optional<uint64_t> array_bytes(const std::vector<int64_t>& shape, uint64_t element_bytes) {
  if (shape.size() > limits::kArrayDimensions) return std::nullopt;
  // A dimension of size 0 makes the array empty, but even then its strides must not overflow.
  int64_t stride = static_cast<int64_t>(element_bytes);
  bool empty = false;
  for (const int64_t size : shape) {
    empty |= size == 0;
    if (__builtin_mul_overflow(stride, std::max<int64_t>(size, 1), &stride)) return std::nullopt;
  }
  return empty ? 0 : static_cast<uint64_t>(stride);
}

}  // namespace bv
