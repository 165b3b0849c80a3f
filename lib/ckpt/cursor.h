// A place in a text, for the strict little parsers of this room (the JSON of safetensors, the
// Python literal of npy). No torch: fuzz targets use it.
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

// Makes the Error about byte `position` of a text.
using ErrorAt = std::function<Error(size_t position, const std::string& message)>;

class Cursor {
 public:
  Cursor(std::string_view text, ErrorAt error) : text_(text), error_(std::move(error)) {}

  size_t position() const { return position_; }
  char peek() const { return position_ < text_.size() ? text_[position_] : '\0'; }
  char next();             // '\0' at the end of the text, which is then not passed
  void skip_blanks();      // space, tab, CR, LF
  bool take(char wanted);  // skips blanks; passes `wanted` if it comes next
  bool take_word(std::string_view wanted);
  void expect(char wanted);  // take() or fail
  void expect_end();         // nothing but blanks may follow
  int64_t integer();         // 0 or more, plain decimal, below 2^63
  // A string from its opening `quote` to the closing one, both included. A backslash takes the
  // next character along.
  std::string_view quoted(char quote);

  [[noreturn]] void fail(const std::string& message) const { fail_at(position_, message); }
  [[noreturn]] void fail_at(size_t position, const std::string& message) const {
    throw error_(position, message);
  }

 private:
  std::string got() const;  // what stands here, for a message

  std::string_view text_;
  ErrorAt error_;
  size_t position_ = 0;
};

// The number of bytes of a dense array; nullopt if that, or a stride of it, does not fit in 63 bits
// or there are more than 32 dimensions.
std::optional<uint64_t> array_bytes(const std::vector<int64_t>& shape, uint64_t element_bytes);

}  // namespace bv
