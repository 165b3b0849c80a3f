// The header is a Python dictionary literal. Only the three keys that numpy writes are accepted.
#include "lib/ckpt/formats/npy.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <set>

#include "lib/util/error.h"
#include "lib/util/text.h"

namespace bv {

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr uint64_t kNpyAlignment = 64;
constexpr std::array<std::string_view, 13> kNpyTypes = {"f2", "f4", "f8", "i1", "i2", "i4", "i8",
                                                        "u1", "u2", "u4", "u8", "b1", "V2"};

// Parses a numpy type such as "<f4": byte order, kind, width.
void set_type(NpyHeader& header, std::string_view descr, const Cursor& cursor, size_t at) {
  const auto refuse = [&](std::string_view why) {
    cursor.fail_at(at, fmt::format("dtype '{}' is not supported{}", descr, why));
  };
  if (descr.size() < 2 || std::string_view("<>|").find(descr[0]) == std::string_view::npos) {
    refuse("");
  }
  if (descr[1] == 'O') refuse(": pickled Python objects are never loaded");
  header.big_endian = descr[0] == '>';
  const std::string_view type = descr.substr(1);
  const bool text = type[0] == 'U' || type[0] == 'S';
  uint32_t width = 0;
  const auto [end, error] = std::from_chars(type.data() + 1, type.data() + type.size(), width);
  if (error != std::errc() || end != type.data() + type.size()) refuse("");
  if (!text && std::find(kNpyTypes.begin(), kNpyTypes.end(), type) == kNpyTypes.end()) refuse("");
  header.type = text ? type.substr(0, 1) : type;
  header.width = uint64_t{width} * (type[0] == 'U' ? 4 : 1);
}

std::string_view python_string(Cursor& cursor) {
  cursor.skip_blanks();
  const size_t at = cursor.position();
  const std::string_view quoted = cursor.quoted(cursor.peek() == '"' ? '"' : '\'');
  if (quoted.find('\\') != std::string_view::npos) cursor.fail_at(at, "string with an escape");
  return quoted.substr(1, quoted.size() - 2);
}

bool python_bool(Cursor& cursor) {
  cursor.skip_blanks();
  const size_t at = cursor.position();
  for (const auto& [word, value] : {std::pair("True", true), std::pair("False", false)}) {
    if (cursor.take_word(word)) return value;
  }
  cursor.fail_at(at, "expected True or False");
}

// Parses a tuple of integers: (), (3,), (3, 4).
std::vector<int64_t> python_shape(Cursor& cursor) {
  std::vector<int64_t> shape;
  cursor.expect('(');
  while (!cursor.take(')')) {
    shape.push_back(cursor.integer());
    if (cursor.take(',')) continue;
    if (shape.size() == 1) cursor.fail("expected ',' in a tuple of one");
    cursor.expect(')');
    break;
  }
  return shape;
}

void parse_dictionary(Cursor& cursor, NpyHeader& header) {
  std::set<std::string_view> keys;
  cursor.expect('{');
  while (!cursor.take('}')) {
    cursor.skip_blanks();
    const size_t key_at = cursor.position();
    const std::string_view key = python_string(cursor);
    if (!keys.insert(key).second) cursor.fail_at(key_at, fmt::format("'{}' appears twice", key));
    cursor.expect(':');
    cursor.skip_blanks();
    const size_t at = cursor.position();
    if (key == "descr") {
      if (cursor.peek() == '[') cursor.fail("record arrays are not supported");
      set_type(header, python_string(cursor), cursor, at);
    } else if (key == "fortran_order") {
      header.fortran_order = python_bool(cursor);
    } else if (key == "shape") {
      header.shape = python_shape(cursor);
    } else {
      cursor.fail_at(key_at, fmt::format("unknown key '{}'", key));
    }
    if (cursor.take(',')) continue;
    cursor.expect('}');
    break;
  }
  for (const char* key : {"descr", "fortran_order", "shape"}) {
    if (keys.count(key) == 0) cursor.fail(fmt::format("no '{}'", key));
  }
  cursor.expect_end();
}

}  // namespace

NpyHeader parse_npy_header(std::span<const uint8_t> npy, const ErrorAt& error_at) {
  const std::string_view text(reinterpret_cast<const char*>(npy.data()), npy.size());
  if (text.substr(0, kMagic.size()) != kMagic) throw error_at(0, "not an npy array");
  const size_t fixed = kMagic.size() + 2;
  if (text.size() < fixed) throw error_at(text.size(), "the npy header is cut off");
  const int version = npy[kMagic.size()];
  if (version < 1 || version > 3 || npy[kMagic.size() + 1] != 0) {
    throw error_at(kMagic.size(), fmt::format("npy version {}.{}; known: 1.0, 2.0, 3.0", version,
                                              npy[kMagic.size() + 1]));
  }
  const size_t length_bytes = version == 1 ? 2 : 4;
  uint32_t length = 0;
  if (text.size() >= fixed + length_bytes) std::memcpy(&length, npy.data() + fixed, length_bytes);
  const size_t begin = fixed + length_bytes;
  if (text.size() < begin || length > text.size() - begin) {
    throw error_at(std::min(begin, text.size()), "the npy header is cut off");
  }

  NpyHeader header;
  header.data = begin + length;
  Cursor cursor(text.substr(begin, length), [&](size_t position, const std::string& message) {
    return error_at(begin + position, message);
  });
  parse_dictionary(cursor, header);
  const auto bytes = array_bytes(header.shape, header.width);
  if (!bytes) throw error_at(begin, "the shape is too large");
  if (*bytes != npy.size() - header.data) {
    throw error_at(begin, fmt::format("shape {} and dtype take {} bytes, but there are {}",
                                      shape_text(header.shape), *bytes, npy.size() - header.data));
  }
  return header;
}

std::string npy_header(std::string_view descr, const std::vector<int64_t>& shape) {
  const char* comma = shape.size() == 1 ? "," : "";
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}",
                                 descr, fmt::join(shape, ", "), comma);
  const size_t fixed = kMagic.size() + 4;
  const size_t total =
      (fixed + text.size() + 1 + kNpyAlignment - 1) / kNpyAlignment * kNpyAlignment;
  text.resize(total - fixed - 1, ' ');
  text += '\n';
  const auto length = static_cast<uint16_t>(text.size());
  std::string header(kMagic);
  header += {'\x01', '\x00', static_cast<char>(length & 0xff), static_cast<char>(length >> 8)};
  return header + text;
}

}  // namespace bv
