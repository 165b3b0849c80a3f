#include "lib/input/sources/common/manifest/json_row.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lib/input/ops/common/text_tensor.h"
#include "lib/input/sources/common/manifest/plain_number.h"
#include "lib/util/limits.h"
#include "lib/util/printable.h"
#include "lib/util/text.h"

namespace bv {
namespace {

class JsonRowParser {
 public:
  // `text` is UTF-8 without NUL bytes.
  explicit JsonRowParser(std::string_view text) : text_(text) {}

  std::vector<JsonField> parse() {
    skip_blanks();
    if (peek() != '{') throw RowFault(at_, "expected an object: {\"key\": value, ...}");
    object("", 1);
    skip_blanks();
    if (peek() == '\n') ++at_;
    if (at_ < text_.size()) fail("expected the end of the line after the object");
    return std::move(fields_);
  }

 private:
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  // Skips white space, but not line breaks: if a value is missing at the end of a row, it must not
  // be read from the next one.
  void skip_blanks() {
    while (at_ < text_.size() && std::string_view(" \t\r").find(text_[at_]) != std::string::npos)
      ++at_;
  }
  [[noreturn]] void fail(const std::string& expected) const {
    throw RowFault(at_, at_ < text_.size() && text_[at_] != '\n' && text_[at_] != '\r'
                            ? expected
                            : expected + ", but the line ends here");
  }
  void expect(char c) {
    skip_blanks();
    if (peek() != c) fail(fmt::format("bad JSON: expected '{}'", c));
    ++at_;
  }
  // Takes ',' and returns true, or `close` and returns false. Another item must follow ','.
  bool more(char close) {
    skip_blanks();
    if (peek() != ',' && peek() != close)
      fail(fmt::format("bad JSON: expected ',' or '{}'", close));
    if (text_[at_++] == close) return false;
    skip_blanks();
    if (peek() == close) fail(fmt::format("bad JSON: a comma before '{}'", close));
    return true;
  }

  void object(const std::string& prefix, int depth) {
    if (depth > limits::kJsonNesting)
      fail(fmt::format("objects nested more than {} deep", limits::kJsonNesting));
    ++at_;
    skip_blanks();
    if (peek() == '}') {
      ++at_;
      return;
    }
    do {
      skip_blanks();
      if (peek() != '"') fail("bad JSON: expected a key in double quotes");
      const size_t at = at_;
      const std::string key = prefix + string();
      if (key.size() > limits::kJsonKeyBytes)
        throw RowFault(at, fmt::format("a key of more than {} bytes", limits::kJsonKeyBytes));
      expect(':');
      skip_blanks();
      if (peek() == '{')
        object(key + "/", depth + 1);
      else
        value(key);
    } while (more('}'));
  }

  void value(const std::string& key) {
    if (fields_.size() == limits::kColumns)
      fail(fmt::format("more than {} values", limits::kColumns));
    JsonField field;
    field.key = key;
    field.at = at_;
    if (peek() == '[')
      list(field);
    else
      field.type.scalar = scalar(field);
    fields_.push_back(std::move(field));
  }

  void list(JsonField& field) {
    field.type.list = true;
    ++at_;
    skip_blanks();
    if (peek() == ']') {
      ++at_;
      return;
    }
    do {
      skip_blanks();
      const size_t at = at_;
      if (peek() == '[') fail("a list in a list is not supported");
      if (peek() == '{') fail("an object in a list is not supported");
      JsonRowType item{scalar(field), /*list=*/true};
      if (!field_takes(field, item)) {
        throw RowFault(
            at, fmt::format("{} in {}", type_text({item.scalar, false}), type_text(field.type)));
      }
    } while (more(']'));
    size_t longest = 0;
    for (const std::string& text : field.texts) longest = std::max(longest, text.size());
    if (field.texts.size() * longest > limits::kPaddedTextBytes) {
      throw RowFault(
          field.at,
          fmt::format("the strings of this list need more than {} MiB when padded to equal lengths",
                      limits::kPaddedTextBytes >> 20));
    }
  }
  // Widens a list's type to include the last item. Integers before a real number become real.
  static bool field_takes(JsonField& field, JsonRowType item) {
    if (!widen(field.type, item)) return false;
    if (field.type.scalar == JsonScalar::real && !field.wholes.empty()) {
      // scalar() has appended the last item to those of its kind.
      std::vector<double> reals(field.wholes.begin(), field.wholes.end());
      if (item.scalar == JsonScalar::whole)
        field.reals.push_back(reals.back());
      else
        field.reals.insert(field.reals.begin(), reals.begin(), reals.end());
      field.wholes.clear();
    }
    return true;
  }

  JsonScalar scalar(JsonField& field) {
    const char c = peek();
    if (c == '"') {
      field.texts.push_back(string());
      return JsonScalar::text;
    }
    if (c == '-' || (c >= '0' && c <= '9')) return number(field);
    const size_t begin = at_;
    size_t end = begin;
    while (end < text_.size() &&
           std::string_view(",]} \t\r\n").find(text_[end]) == std::string::npos)
      ++end;
    const std::string_view word = text_.substr(begin, end - begin);
    if (word == "true" || word == "false") {
      at_ = end;
      field.wholes.push_back(word == "true" ? 1 : 0);
      return JsonScalar::flag;
    }
    if (word == "null") fail("null has no type: every row needs a value here");
    if (word == "NaN" || word == "Infinity" || word == "inf" || word == "nan")
      fail(fmt::format("{} is not a finite number", word));
    if (word.empty()) fail("bad JSON: expected a value");
    fail(fmt::format("bad JSON: expected a value, got '{}'", printable(word, 40)));
  }

  JsonScalar number(JsonField& field) {
    const size_t begin = at_;
    size_t end = begin;
    while (end < text_.size() &&
           std::string_view("+-.0123456789eEInfity").find(text_[end]) != std::string::npos)
      ++end;
    const std::string_view word = text_.substr(begin, end - begin);
    if (word == "-Infinity") fail("-Infinity is not a finite number");
    const PlainNumber number = plain_number(word);
    // JSON requires a digit on both sides of a point.
    const size_t point = word.find('.');
    const auto digit = [&](size_t at) {
      return at < word.size() && word[at] >= '0' && word[at] <= '9';
    };
    const bool bare_point =
        point != std::string_view::npos && (point == 0 || !digit(point - 1) || !digit(point + 1));
    if (number.kind == PlainNumber::Kind::none || bare_point)
      fail(fmt::format("bad JSON: '{}' is not a number", printable(word, 40)));
    if (number.kind == PlainNumber::Kind::huge) {
      fail(
          fmt::format("the number {} is too large for {}", printable(word, 40),
                      word.find_first_of(".eE") == std::string_view::npos ? "64 bits" : "float32"));
    }
    at_ = end;
    if (number.kind == PlainNumber::Kind::whole) {
      field.wholes.push_back(number.whole);
      return JsonScalar::whole;
    }
    field.reals.push_back(number.real);
    return JsonScalar::real;
  }

  std::string string() {
    const size_t begin = at_++;
    std::string out;
    while (true) {
      const size_t stop = std::min(text_.find_first_of("\"\\\r\n", at_), text_.size());
      const std::string_view plain = text_.substr(at_, stop - at_);
      const auto control = std::find_if(
          plain.begin(), plain.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; });
      if (control != plain.end()) {
        at_ += control - plain.begin();
        fail(fmt::format(
            "bad JSON: a control character (0x{:02X}) in a string: write it as \\u{:04x}",
            static_cast<int>(*control), static_cast<int>(*control)));
      }
      out.append(plain);
      at_ = stop;
      if (peek() == '"') {
        ++at_;
        return out;
      }
      if (peek() != '\\')
        throw RowFault(begin, "bad JSON: the quote that opens here is never closed");
      escape(out);
    }
  }

  void escape(std::string& out) {
    constexpr std::string_view kLetters = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
    const size_t begin = at_++;
    const auto bad = [&](const char* why) { return RowFault(begin, why); };
    const size_t which = kLetters.find(peek());
    if (at_ < text_.size() && which != std::string_view::npos) {
      out += kMeanings[which];
      ++at_;
      return;
    }
    if (peek() != 'u') throw bad("bad JSON: an unknown escape in a string");
    uint32_t code = hex_code(begin);
    if (code == 0) throw bad("a string must not contain U+0000: zeros mark its end");
    if (code >= 0xDC00 && code < 0xE000) throw bad("bad JSON: half of a surrogate pair");
    if (code >= 0xD800 && code < 0xDC00) {
      if (text_.substr(at_, 2) != "\\u") throw bad("bad JSON: half of a surrogate pair");
      ++at_;
      const uint32_t low = hex_code(begin);
      if (low < 0xDC00 || low >= 0xE000) throw bad("bad JSON: half of a surrogate pair");
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    append_utf8(out, code);
  }

  // Reads "u" and four hexadecimal digits. `begin` is the offset of the escape.
  uint32_t hex_code(size_t begin) {
    uint32_t code = 0;
    for (size_t i = 1; i <= 4; ++i) {
      const char c = at_ + i < text_.size() ? text_[at_ + i] : '\0';
      const size_t digit =
          std::string_view("0123456789abcdef").find(c >= 'A' && c <= 'F' ? c + 32 : c);
      if (c == '\0' || digit == std::string_view::npos)
        throw RowFault(begin, "bad JSON: \\u needs four hexadecimal digits");
      code = code << 4 | static_cast<uint32_t>(digit);
    }
    at_ += 5;
    return code;
  }

  std::string_view text_;
  size_t at_ = 0;
  std::vector<JsonField> fields_;
};

at::Tensor number_tensor(const JsonField& field, JsonScalar scalar) {
  const size_t count = std::max(field.wholes.size(), field.reals.size());
  const auto dtype = scalar == JsonScalar::flag    ? at::kBool
                     : scalar == JsonScalar::whole ? at::kLong
                                                   : at::kFloat;
  at::Tensor values = at::empty({static_cast<int64_t>(count)}, dtype);
  const auto fill = [&](auto* out) {
    using Value = std::remove_pointer_t<decltype(out)>;
    const auto convert = [](auto value) { return static_cast<Value>(value); };
    if (field.reals.empty())
      std::transform(field.wholes.begin(), field.wholes.end(), out, convert);
    else
      std::transform(field.reals.begin(), field.reals.end(), out, convert);
  };
  if (scalar == JsonScalar::flag)
    fill(values.mutable_data_ptr<bool>());
  else if (scalar == JsonScalar::whole)
    fill(values.mutable_data_ptr<int64_t>());
  else
    fill(values.mutable_data_ptr<float>());
  return field.type.list ? values : values.squeeze(0);
}

}  // namespace

std::string type_text(JsonRowType type) {
  constexpr const char* kOne[] = {"true or false", "an integer", "a number with a decimal point",
                                  "a string", "nothing"};
  constexpr const char* kMany[] = {"a list of true and false", "a list of integers",
                                   "a list of numbers", "a list of strings", "an empty list"};
  return (type.list ? kMany : kOne)[static_cast<size_t>(type.scalar)];
}

bool widen(JsonRowType& type, JsonRowType other) {
  if (type.list != other.list) return false;
  const auto number = [](JsonScalar scalar) {
    return scalar == JsonScalar::whole || scalar == JsonScalar::real;
  };
  if (type.scalar == JsonScalar::nothing)
    type.scalar = other.scalar;
  else if (number(type.scalar) && number(other.scalar) && type.scalar != other.scalar)
    type.scalar = JsonScalar::real;
  return type.scalar == other.scalar || other.scalar == JsonScalar::nothing ||
         (type.scalar == JsonScalar::real && number(other.scalar));
}

std::vector<JsonField> read_json_row(std::string_view text) {
  check_row_text(text);
  std::vector<JsonField> fields = JsonRowParser(text).parse();
  std::stable_sort(fields.begin(), fields.end(),
                   [](const JsonField& a, const JsonField& b) { return a.key < b.key; });
  const auto twice =
      std::adjacent_find(fields.begin(), fields.end(),
                         [](const JsonField& a, const JsonField& b) { return a.key == b.key; });
  if (twice != fields.end())
    throw RowFault(twice[1].at, fmt::format("the key '{}' appears twice", printable(twice->key)));
  return fields;
}

at::Tensor field_tensor(const JsonField& field, JsonRowType type) {
  if (type.scalar != JsonScalar::text) return number_tensor(field, type.scalar);
  return type.list ? text_tensor(field.texts) : text_tensor(field.texts.at(0));
}

}  // namespace bv
