#include "lib/util/protobuf.h"

#include <bit>
#include <cstring>

#include "lib/util/protobuf_reader.h"

namespace bv::protobuf {
namespace {

static_assert(std::endian::native == std::endian::little);

// 7 bits per byte, lowest first; the top bit is set if another byte follows.
void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void put_key(std::string& out, int field, WireType type) {
  put_varint(out, static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(type));
}

template <class T>
void put_memory(std::string& out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

}  // namespace

void put_integer(std::string& out, int field, int64_t value) {
  put_key(out, field, WireType::varint);
  put_varint(out, static_cast<uint64_t>(value));
}

void put_float(std::string& out, int field, float value) {
  put_key(out, field, WireType::fixed32);
  put_memory(out, value);
}

void put_double(std::string& out, int field, double value) {
  put_key(out, field, WireType::fixed64);
  put_memory(out, value);
}

void put_bytes(std::string& out, int field, std::string_view value) {
  put_bytes_header(out, field, value.size());
  out += value;
}

void put_bytes_header(std::string& out, int field, uint64_t size) {
  put_key(out, field, WireType::bytes);
  put_varint(out, size);
}

}  // namespace bv::protobuf
