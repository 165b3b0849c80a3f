// An encoder for protobuf's wire format (protobuf.dev/programming-guides/encoding), for the few
// messages that are written without protobuf's own library: TensorBoard events and ONNX files.
//
// Each function appends one field to `out`: its key (field number and wire type), then its value.
// A nested message is encoded into a separate string and added with put_bytes().
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace bv::protobuf {

// int64, int32, uint64, bool and enum fields: a varint.
void put_integer(std::string& out, int field, int64_t value);
// float fields: 4 bytes, little endian.
void put_float(std::string& out, int field, float value);
// double fields: 8 bytes, little endian.
void put_double(std::string& out, int field, double value);
// string, bytes and message fields.
void put_bytes(std::string& out, int field, std::string_view value);
// Appends only the key and the length of such a field. The caller appends the `size` bytes of the
// value itself, which saves a copy of large ones.
void put_bytes_header(std::string& out, int field, uint64_t size);

}  // namespace bv::protobuf
