#pragma once

#include <cstdint>
#include <string_view>

namespace bv {

// A number in a text file.
struct PlainNumber {
  enum class Kind : uint8_t {
    none,   // not a number
    whole,  // fits an int64
    real,   // has a point or an exponent, and is finite as float32
    huge    // too large for these
  };
  Kind kind = Kind::none;
  int64_t whole = 0;
  double real = 0;  // also of an integer
};

// Reads a whole string as a number: [+-] digits [. digits] [e [+-] digits], with digits before or
// after the point. 007 is not a number, because an id or a name may be written like that. Neither
// are "nan", "inf" and "1 000".
PlainNumber plain_number(std::string_view text);

// Returns whether a whole string is a number with a decimal comma: "0,5".
bool has_decimal_comma(std::string_view text);

}  // namespace bv
