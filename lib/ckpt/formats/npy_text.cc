#include "lib/ckpt/formats/npy_text.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>

namespace bv {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr uint32_t kEscapedByte = 0xdc00;  // Python's surrogateescape: 0xdc00 + the byte
constexpr uint32_t kLastCharacter = 0x10ffff;

// Returns the number of bytes of the UTF-8 character at the start of `text`, and sets `character`.
// A byte that begins none gives the length 1 and an escaped byte.
size_t decode(std::string_view text, uint32_t& character) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const size_t length = byte(0) < 0x80    ? 1
                        : byte(0) >= 0xf0 ? 4
                        : byte(0) >= 0xe0 ? 3
                        : byte(0) >= 0xc0 ? 2
                                          : 0;
  if (length == 1) character = byte(0);
  if (length == 1) return 1;
  bool valid = length > 0 && length <= text.size();
  if (valid) {
    character = byte(0) & (0xffU >> (length + 1));
    for (size_t i = 1; i < length; ++i) {
      valid = valid && (byte(i) & 0xc0) == 0x80;
      character = character << 6 | (byte(i) & 0x3fU);
    }
    constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
    const bool surrogate = character >= 0xd800 && character < 0xe000;
    valid = valid && character >= kSmallest[length] && character <= kLastCharacter && !surrogate;
  }
  if (valid) return length;
  character = kEscapedByte + byte(0);
  return 1;
}

std::vector<uint32_t> characters_of(std::string_view text) {
  std::vector<uint32_t> characters;
  while (!text.empty()) {
    characters.emplace_back();
    text.remove_prefix(decode(text, characters.back()));
  }
  return characters;
}

void append_utf8(std::string& out, uint32_t character) {
  const auto put = [&](uint32_t byte) { out += static_cast<char>(byte); };
  if (character < 0x80) return put(character);
  if (character >= kEscapedByte + 0x80 && character <= kEscapedByte + 0xff)
    return put(character - kEscapedByte);
  if (character < 0x800) {
    put(0xc0 | character >> 6);
  } else {
    if (character < 0x10000) {
      put(0xe0 | character >> 12);
    } else {
      put(0xf0 | character >> 18);
      put(0x80 | (character >> 12 & 0x3f));
    }
    put(0x80 | (character >> 6 & 0x3f));
  }
  put(0x80 | (character & 0x3f));
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
    size_t kept = 0;  // length of the text without the zeros at its end
    for (size_t i = at; i < at + header.width; i += sizeof(uint32_t)) {
      uint32_t character = 0;
      std::memcpy(&character, npy.data() + i, sizeof(character));
      if (header.big_endian) character = __builtin_bswap32(character);
      if (character > kLastCharacter)
        throw error_at(i, fmt::format("{} is no character of Unicode", character));
      append_utf8(text, character);
      if (character != 0) kept = text.size();
    }
    text.resize(kept);
    texts.push_back(std::move(text));
  }
  return texts;
}

}  // namespace bv
