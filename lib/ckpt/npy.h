// The header of an npy array. Torch-free. Format: numpy/lib/format.py, versions 1 to 3.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/ckpt/cursor.h"

namespace bv {

struct NpyHeader {
  std::string type;  // of an element: f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1 V2, or U S (text)
  bool big_endian = false;
  uint64_t width = 0;  // bytes of an element
  bool fortran_order = false;
  std::vector<int64_t> shape;
  uint64_t data = 0;  // where the elements begin; they are the rest of the bytes, exactly

  bool is_text() const { return type == "U" || type == "S"; }
};

// `npy` is the whole array with its header. Pickled objects and records are refused.
NpyHeader parse_npy_header(std::span<const uint8_t> npy, const ErrorAt& error_at);

// Version 1.0, C order, padded to a multiple of 64 bytes. `descr` is "<f4".
std::string npy_header(std::string_view descr, const std::vector<int64_t>& shape);

}  // namespace bv
