// A reading position in a text, for the strict parsers of lib/ckpt: the JSON header of safetensors
// and the Python literal of npy. Needs no torch, so that fuzz targets can use it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/util/error.h"

namespace bv {

// Makes the Error about the byte at `position` of a text.
using ErrorAt = std::function<Error(size_t position, const std::string& message)>;

// All members except peek(), next() and position() first skip white space (space, tab, CR, LF).
// Malformed input throws the Error that `error` makes. Never reads beyond the end of the text.
class Cursor {
 public:
  Cursor(std::string_view text, ErrorAt error) : text_(text), error_(std::move(error)) {}

  size_t position() const { return position_; }
  // Returns the character at the position; '\0' at the end of the text.
  char peek() const { return position_ < text_.size() ? text_[position_] : '\0'; }
  char next();  // returns peek() and advances, but not beyond the end
  void skip_blanks();
  bool take(char wanted);                   // advances and returns true if `wanted` comes next
  bool take_word(std::string_view wanted);  // the same for several characters
  void expect(char wanted);                 // take(), or throws
  void expect_end();                        // throws unless only white space follows
  int64_t integer();                        // a decimal number from 0 to 2^63 - 1
  // Returns a string from its opening `quote` to the closing one, both included. A quote after a
  // backslash does not close it.
  std::string_view quoted(char quote);

  [[noreturn]] void fail(const std::string& message) const { fail_at(position_, message); }
  [[noreturn]] void fail_at(size_t position, const std::string& message) const {
    throw error_(position, message);
  }

 private:
  std::string got() const;  // the character at the position, for a message

  std::string_view text_;
  ErrorAt error_;
  size_t position_ = 0;
};

// Returns the number of bytes of a dense array. nullopt if that number or a stride does not fit in
// 63 bits, or if there are more than 32 dimensions.
std::optional<uint64_t> array_bytes(const std::vector<int64_t>& shape, uint64_t element_bytes);

}  // namespace bv
