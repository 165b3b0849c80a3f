#include "lib/ckpt/formats/npy_text.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>

#include "lib/util/text.h"

namespace bv {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr uint32_t kEscapedByte = 0xdc00;  // Python's surrogateescape: 0xdc00 + the byte
constexpr uint32_t kLastCharacter = 0x10ffff;

// Removes the first character of `text` and returns it. `text` must not be empty. If it does not
// begin with valid UTF-8, the first byte is removed and returned as an escaped byte.
uint32_t take_character(std::string_view& text) {
  const size_t length = utf8_length(text);
  const uint32_t first = static_cast<unsigned char>(text[0]);
  uint32_t character = length == 0   ? kEscapedByte + first
                       : length == 1 ? first
                                     : first & (0xffU >> (length + 1));
  for (size_t i = 1; i < length; ++i)
    character = character << 6 | (static_cast<unsigned char>(text[i]) & 0x3fU);
  text.remove_prefix(std::max<size_t>(1, length));
  return character;
}

std::vector<uint32_t> characters_of(std::string_view text) {
  std::vector<uint32_t> characters;
  while (!text.empty()) characters.push_back(take_character(text));
  return characters;
}

void append_character(std::string& out, uint32_t character) {
  if (character >= kEscapedByte + 0x80 && character <= kEscapedByte + 0xff)
    out += static_cast<char>(character - kEscapedByte);
  else
    append_utf8(out, character);
}

}  // namespace

std::vector<uint8_t> text_npy(const std::vector<std::string>& texts) {
  size_t width = 1;  // numpy has no type <U0
  for (const std::string& text : texts) width = std::max(width, characters_of(text).size());
  const std::string header =
      npy_header(fmt::format("<U{}", width), {static_cast<int64_t>(texts.size())});
  std::vector<uint8_t> npy(header.size() + texts.size() * width * sizeof(uint32_t));
  std::memcpy(npy.data(), header.data(), header.size());
  uint8_t* to = npy.data() + header.size();
  for (const std::string& text : texts) {
    const std::vector<uint32_t> characters = characters_of(text);
    if (!characters.empty())
      std::memcpy(to, characters.data(), characters.size() * sizeof(uint32_t));
    to += width * sizeof(uint32_t);
  }
  return npy;
}

std::vector<std::string> npy_texts(std::span<const uint8_t> npy, const NpyHeader& header,
                                   const ErrorAt& error_at) {
  if (header.fortran_order && header.shape.size() > 1)
    throw error_at(0, "text in Fortran order is not supported");
  std::vector<std::string> texts;
  if (header.width == 0) return texts;
  for (size_t at = header.data; at < npy.size(); at += header.width) {
    std::string text;
    size_t kept = 0;  // length of the string without trailing zeros
    for (size_t i = at; i < at + header.width; i += sizeof(uint32_t)) {
      uint32_t character = 0;
      std::memcpy(&character, npy.data() + i, sizeof(character));
      if (header.big_endian) character = __builtin_bswap32(character);
      if (character > kLastCharacter)
        throw error_at(i, fmt::format("{} is not a Unicode character", character));
      append_character(text, character);
      if (character != 0) kept = text.size();
    }
    text.resize(kept);
    texts.push_back(std::move(text));
  }
  return texts;
}

}  // namespace bv
