// A decoder for protobuf's wire format (protobuf.dev/programming-guides/encoding). It reads a
// message in place: nothing is copied or allocated, and every length is checked.
#pragma once

#include <cstdint>
#include <span>

namespace bv::protobuf {

enum class WireType : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

// The fields of a message, one after the other:
//     for (Reader message(bytes); message.next();) {
//       if (message.field() == 1 && message.type() == WireType::bytes) use(message.bytes());
//     }
// All members throw Error::bare(Exit::data) if the message is malformed. Groups, which protobuf has
// deprecated, count as malformed.
class Reader {
 public:
  explicit Reader(std::span<const uint8_t> message) : rest_(message) {}

  // Goes to the next field. Returns false at the end of the message.
  bool next();
  int64_t field() const { return field_; }  // its number
  WireType type() const { return type_; }
  // The value of a field of WireType::bytes: a string, a message or a packed list.
  std::span<const uint8_t> bytes() const { return bytes_; }
  // The value of a field of any other type, as its bits.
  uint64_t bits() const { return bits_; }

 private:
  std::span<const uint8_t> rest_;
  int64_t field_ = 0;
  WireType type_ = WireType::varint;
  std::span<const uint8_t> bytes_;
  uint64_t bits_ = 0;
};

// Removes a varint from the front of `bytes` and returns it. Throws Error::bare(Exit::data) if it
// is cut off or longer than 10 bytes.
uint64_t take_varint(std::span<const uint8_t>& bytes);

}  // namespace bv::protobuf
