#include "lib/input/sources/common/manifest/plain_number.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <system_error>

namespace bv {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Returns how many digits begin at `at`.
size_t digits_at(std::string_view text, size_t at) {
  size_t end = at;
  while (end < text.size() && is_digit(text[end])) ++end;
  return end - at;
}

enum class NumberForm : uint8_t { none, whole, real };

// `text` is without a sign.
NumberForm form_of(std::string_view text) {
  const size_t before = digits_at(text, 0);
  if (before > 1 && text[0] == '0') return NumberForm::none;
  size_t at = before, after = 0;
  if (at < text.size() && text[at] == '.') {
    after = digits_at(text, at + 1);
    at += 1 + after;
  }
  if (before + after == 0) return NumberForm::none;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
    const size_t exponent = digits_at(text, at);
    if (exponent == 0) return NumberForm::none;
    at += exponent;
  }
  if (at != text.size()) return NumberForm::none;
  return at == before ? NumberForm::whole : NumberForm::real;
}

double to_double(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  // from_chars() does not distinguish a number that is too large from one that is too close to 0.
  if (error == std::errc::result_out_of_range)
    return std::strtod(std::string(text).c_str(), nullptr);
  return value;
}

}  // namespace

PlainNumber plain_number(std::string_view text) {
  using Kind = PlainNumber::Kind;
  std::string_view digits = text;
  const bool plus = digits.starts_with('+');
  if (plus || digits.starts_with('-')) digits.remove_prefix(1);
  const NumberForm form = form_of(digits);
  if (form == NumberForm::none) return {};
  if (plus) text.remove_prefix(1);  // from_chars() takes no plus sign
  PlainNumber number;
  if (form == NumberForm::whole) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number.whole);
    number.kind = error == std::errc() ? Kind::whole : Kind::huge;
    number.real = static_cast<double>(number.whole);
    return number;
  }
  number.real = to_double(text);
  const bool fits = std::abs(number.real) <= double{std::numeric_limits<float>::max()};
  number.kind = fits ? Kind::real : Kind::huge;
  return number;
}

bool has_decimal_comma(std::string_view text) {
  const size_t comma = text.find(',');
  if (comma == std::string_view::npos) return false;
  std::string with_point(text);
  with_point[comma] = '.';
  return plain_number(with_point).kind == PlainNumber::Kind::real;
}

}  // namespace bv
