// The header of an npy array. Needs no torch. Format: numpy/lib/format.py, versions 1.0 to 3.0.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/ckpt/formats/cursor.h"

namespace bv {

struct NpyHeader {
  std::string type;  // of the elements: f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1 V2, or U S (text)
  bool big_endian = false;
  uint64_t width = 0;  // bytes of an element
  bool fortran_order = false;
  std::vector<int64_t> shape;
  uint64_t data = 0;  // offset of the elements, which take all remaining bytes

  bool is_text() const { return type == "U" || type == "S"; }
};

// Parses the header of `npy`, a whole array. Throws what `error_at` makes, also for pickled
// objects, for records, and if the number of bytes does not fit the shape.
NpyHeader parse_npy_header(std::span<const uint8_t> npy, const ErrorAt& error_at);

// Returns the header of an array in C order: version 1.0, padded to a multiple of 64 bytes. `descr`
// is numpy's name of the type, such as "<f4".
std::string npy_header(std::string_view descr, const std::vector<int64_t>& shape);

}  // namespace bv
