// Rows of JSON Lines: each line is one object. The parser is our own, because errors must name the
// column, repeated keys must be found, and a nested row must not exhaust the stack.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/input/sources/common/manifest/row_text.h"

namespace bv {

// What a value is, or each item of a list.
enum class JsonScalar : uint8_t {
  flag,   // true or false
  whole,  // an integer within 64 bits
  real,   // any other number, finite as float32
  text,
  nothing  // of an empty list: fits any list
};

struct JsonRowType {
  JsonScalar scalar = JsonScalar::nothing;
  bool list = false;

  bool operator==(const JsonRowType&) const = default;
};

// Returns "an integer", "a list of strings".
std::string type_text(JsonRowType type);

// One value of a row. A value inside nested objects has a key like "a/b".
struct JsonField {
  std::string key;
  size_t at = 0;  // the offset of the value in the row
  JsonRowType type;
  // The items of a list, or one value. One of these three vectors is used: wholes for flags (0 and
  // 1) and integers, reals, or texts.
  std::vector<int64_t> wholes;
  std::vector<double> reals;
  std::vector<std::string> texts;
};

// Returns the values of the row `text`, sorted by key. Throws RowFault: bad JSON, text that is not
// UTF-8, a repeated key, null, lists in lists or of different types, numbers that are too large,
// strings with U+0000, objects nested more than 64 deep, more than 10,000 values.
std::vector<JsonField> read_json_row(std::string_view text);

// Widens `type` so that it includes `other`: integers and real numbers are real, and an empty list
// is any list. Returns false if no type includes both.
bool widen(JsonRowType& type, JsonRowType other);

// Returns the value as a value of `type`, which includes its own: bool, int64, float32, or a string
// as uint8; () or a list of n as (n,), strings as (n, longest) padded with zeros.
at::Tensor field_tensor(const JsonField& field, JsonRowType type);

}  // namespace bv
