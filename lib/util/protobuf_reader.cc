#include "lib/util/protobuf_reader.h"

#include "lib/util/error.h"

namespace bv::protobuf {
namespace {

[[noreturn]] void malformed(const char* why) {
  throw Error::bare(Exit::data, fmt::format("not a valid protobuf message: {}", why));
}

// Removes the first `size` bytes of `bytes` and returns them.
std::span<const uint8_t> take(std::span<const uint8_t>& bytes, uint64_t size) {
  if (size > bytes.size()) malformed("a field is longer than the message");
  const std::span<const uint8_t> front = bytes.first(size);
  bytes = bytes.subspan(size);
  return front;
}

// Removes an integer of Size bytes, little endian.
template <size_t Size>
uint64_t take_fixed(std::span<const uint8_t>& bytes) {
  const std::span<const uint8_t> front = take(bytes, Size);
  uint64_t value = 0;
  for (size_t i = 0; i < Size; ++i) value |= uint64_t{front[i]} << (8 * i);
  return value;
}

}  // namespace

uint64_t take_varint(std::span<const uint8_t>& bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < 10; ++i) {
    if (i == bytes.size()) malformed("a number is cut off");
    value |= uint64_t{bytes[i] & 0x7FU} << (7 * i);
    if (bytes[i] < 0x80) {
      bytes = bytes.subspan(i + 1);
      return value;
    }
  }
  malformed("a number is longer than 10 bytes");
}

bool Reader::next() {
  if (rest_.empty()) return false;
  const uint64_t key = take_varint(rest_);
  field_ = static_cast<int64_t>(key >> 3);
  if (field_ == 0 || field_ >= int64_t{1} << 29) malformed("a field has an impossible number");
  bytes_ = {};
  bits_ = 0;
  switch (key & 7) {
    case 0:
      bits_ = take_varint(rest_);
      break;
    case 1:
      bits_ = take_fixed<8>(rest_);
      break;
    case 2:
      bytes_ = take(rest_, take_varint(rest_));
      break;
    case 5:
      bits_ = take_fixed<4>(rest_);
      break;
    default:
      malformed("a field has an unknown type");
  }
  type_ = static_cast<WireType>(key & 7);
  return true;
}

}  // namespace bv::protobuf
