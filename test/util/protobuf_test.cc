// The encoder against the examples in protobuf's description of its wire format.
#include "lib/util/protobuf.h"

#include <catch2/catch.hpp>
#include <string>

namespace bv::test {
namespace {

using protobuf::put_bytes;
using protobuf::put_bytes_header;
using protobuf::put_double;
using protobuf::put_float;
using protobuf::put_integer;

std::string hex(const std::string& bytes) {
  std::string out;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out += "0123456789abcdef"[byte >> 4];
    out += "0123456789abcdef"[byte & 15];
  }
  return out;
}

std::string integer(int field, int64_t value) {
  std::string out;
  put_integer(out, field, value);
  return hex(out);
}

}  // namespace

TEST_CASE("protobuf: integers are varints") {
  CHECK(integer(1, 150) == "089601");
  CHECK(integer(1, 0) == "0800");
  CHECK(integer(15, 127) == "787f");
  CHECK(integer(16, 128) == "80018001");
  CHECK(integer(1, -2) == "08feffffffffffffffff01");
}

TEST_CASE("protobuf: floats and doubles are little endian") {
  std::string out;
  put_float(out, 2, 1.5F);
  put_double(out, 1, -2.0);
  CHECK(hex(out) ==
        "150000c03f"
        "0900000000000000c0");
}

TEST_CASE("protobuf: strings and messages carry their length") {
  std::string out, inner;
  put_bytes(out, 2, "testing");
  CHECK(hex(out) == "120774657374696e67");
  put_integer(inner, 1, 150);
  out.clear();
  put_bytes(out, 3, inner);
  CHECK(hex(out) == "1a03089601");
  std::string header;
  put_bytes_header(header, 3, inner.size());
  CHECK(header + inner == out);
  put_bytes(out, 1, std::string(300, 'x'));
  CHECK(hex(out.substr(5, 3)) == "0aac02");
}

}  // namespace bv::test
