// The op strfmt. Numbers are inserted as TensorFlow prints them. Draws no random numbers.
#include <algorithm>
#include <cstdlib>

#include "lib/config/key_table.h"
#include "lib/device/dtype_name.h"
#include "lib/input/op.h"
#include "lib/input/ops/common/example_keys.h"
#include "lib/input/ops/common/text_tensor.h"
#include "lib/util/text.h"

namespace bv {
namespace {

const KeyTable strfmt_keys(
    "pp: strfmt",
    {"Fills a template with the values of features and stores the string in 'text' (1-d uint8). A "
     "feature that is a list of strings gives a list of strings (2-d uint8).",
     "strfmt('a photo of a {labels}.')", "pp/ops_text.py get_strfmt"},
    {{"template", "string", "required",
      "The template. \"{name}\" stands for the feature of that name: a string, or at most 1000 "
      "numbers, written as 42, 3.14 or [0 1 2]. \"{{\" and \"}}\" stand for braces. Python formats "
      "such as \"{x:.2f}\" are not supported.",
      "'a photo of a {labels}.'"},
     {"outkey", "string", "text", "Name of the result."}});

// A piece of literal text, and the key whose value follows it ("" for none).
struct FormatPiece {
  std::string text, key;
};

std::vector<FormatPiece> parse_template(const std::string& text, const Config& args) {
  std::vector<FormatPiece> pieces(1);
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c != '{' && c != '}') {
      pieces.back().text += c;
    } else if (i + 1 < text.size() && text[i + 1] == c) {
      pieces.back().text += c;
      ++i;
    } else if (c == '}') {
      args.fail("template", fmt::format("has a single '}}' at character {}", i + 1));
    } else {
      const size_t end = text.find('}', i);
      if (end == std::string::npos) {
        args.fail("template",
                  fmt::format("has a '{{' at character {} that is never closed", i + 1));
      }
      const std::string key = text.substr(i + 1, end - i - 1);
      if (key.empty()) args.fail("template", "has a placeholder without a key: '{}'");
      if (key.find_first_of("{:!") != std::string::npos) {
        args.fail("template",
                  fmt::format("has '{{{}}}': only a plain key is allowed in braces", key));
      }
      pieces.back().key = key;
      pieces.emplace_back();
      i = end;
    }
  }
  return pieces;
}

// Returns a number as TensorFlow prints it: with 6 digits, or 9 if 6 digits read back as another
// number (15 and 17 for float64).
std::string number_text(double value, bool single) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  const std::string short_text = fmt::format("{:.{}g}", value, single ? 6 : 15);
  const bool same = single ? std::strtof(short_text.c_str(), nullptr) == static_cast<float>(value)
                           : std::strtod(short_text.c_str(), nullptr) == value;
  return same ? short_text : fmt::format("{:.{}g}", value, single ? 9 : 17);
}

std::string scalar_text(const at::Tensor& scalar) {
  if (c10::isFloatingType(scalar.scalar_type())) {
    return number_text(scalar.item<double>(), scalar.scalar_type() != at::kDouble);
  }
  return fmt::format("{}", scalar.item<int64_t>());
}

// Returns the values as TensorFlow prints them. `values` is inside `depth` brackets of an array of
// `rank` dimensions.
std::string array_text(const at::Tensor& values, int64_t depth, int64_t rank) {
  if (values.dim() == 0) return scalar_text(values);
  const std::string separator =
      depth == rank - 1 ? " " : std::string(rank - depth - 1, '\n') + std::string(depth + 1, ' ');
  std::string text = "[";
  for (int64_t i = 0; i < values.size(0); ++i) {
    if (i > 0) text += separator;
    text += array_text(values.select(0, i), depth + 1, rank);
  }
  return text + "]";
}

class Strfmt : public Op {
 public:
  explicit Strfmt(const Config& args)
      : pieces_(parse_template(args.get<std::string>("template"), args)),
        outkey_(args.get("outkey", "text")) {}

  void apply(Example& example, Rng&) const override {
    std::vector<std::string> texts(1);
    bool list = false;
    for (const FormatPiece& piece : pieces_) {
      for (std::string& text : texts) text += piece.text;
      if (piece.key.empty()) continue;
      const at::Tensor value = require_tensor(example, piece.key, "strfmt");
      if (!is_text(value)) {
        const std::string number = checked_text(value, piece.key);
        for (std::string& text : texts) text += number;
        continue;
      }
      append(read_texts(value), value.dim() == 2, piece.key, texts, list);
    }
    example[outkey_] = list ? text_tensor(texts) : text_tensor(texts[0]);
  }
  bool leaves(std::string_view key) const override {
    return outkey_ != key && std::ranges::none_of(pieces_, [&](const FormatPiece& piece) {
             return piece.key == key;
           });
  }
  std::optional<std::string> makes_from(std::string_view key) const override {
    if (outkey_ != key) return std::nullopt;
    std::vector<std::string> keys;
    for (const FormatPiece& piece : pieces_) {
      if (!piece.key.empty()) keys.push_back(piece.key);
    }
    return keys == std::vector{outkey_} ? std::nullopt : std::optional(join(keys, "+"));
  }

 private:
  // Appends one string to each of `texts`, or each string of a list to one of `texts`.
  static void append(const std::vector<std::string>& more, bool more_is_list,
                     const std::string& key, std::vector<std::string>& texts, bool& list) {
    if (more_is_list && !list) {
      texts = std::vector<std::string>(more.size(), texts[0]);
      list = true;
    } else if (more_is_list && more.size() != texts.size()) {
      throw Error::bare(Exit::usage,
                        fmt::format("strfmt: '{}' is a list of {} strings, but another key has {}",
                                    key, more.size(), texts.size()));
    }
    for (size_t i = 0; i < texts.size(); ++i) texts[i] += more_is_list ? more[i] : more[0];
  }

  static std::string checked_text(const at::Tensor& value, const std::string& key) {
    constexpr int64_t kMaxValues = 1000;
    if (value.numel() > kMaxValues || c10::isComplexType(value.scalar_type())) {
      throw Error::bare(
          Exit::usage,
          fmt::format(
              "strfmt: '{}' must be a string or at most {} numbers, has shape {} and type {}", key,
              kMaxValues, shape_text(value.sizes()), dtype_name(value.scalar_type())));
    }
    return array_text(value, 0, value.dim());
  }

  const std::vector<FormatPiece> pieces_;
  const std::string outkey_;
};

const Register<Op, Strfmt> registered_strfmt("strfmt");

}  // namespace
}  // namespace bv
