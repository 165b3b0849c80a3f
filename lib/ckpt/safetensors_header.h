// The header of a safetensors file: parsing with every check, and writing. Torch-free.
// Format: https://github.com/huggingface/safetensors (README, "Format").
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace bv {

// The longest JSON of a header that is read or written, in bytes. The format's own limit is 100 MB;
// this is room for 80,000 tensors, parsed in a tenth of a second.
inline constexpr uint64_t kMaxSafetensorsHeader = 8 << 20;

struct SafetensorsEntry {
  std::string name;
  std::string dtype;  // one of the ten names below
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;  // bytes from the start of the data section
  uint64_t position = 0;        // of the name in the file, for messages
};

struct SafetensorsHeader {
  uint64_t data = 0;  // offset of the data section in the file
  std::vector<SafetensorsEntry>
      entries;  // in order of their data: no hole, no overlap, none over the end
};

// Bytes of one element of F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL; 0 for any other name.
uint64_t safetensors_element_bytes(const std::string& dtype);

// `content` is the whole file, `file` its name. Throws Error(Exit::usage) "file @ offset N: ...".
SafetensorsHeader parse_safetensors_header(std::span<const uint8_t> content,
                                           const std::string& file);

// Length and JSON, padded with blanks so that the data begins at a multiple of 64 bytes. Throws
// Error(Exit::storage) at `file` where the JSON is longer than kMaxSafetensorsHeader.
std::string safetensors_header(const std::vector<SafetensorsEntry>& entries,
                               const std::map<std::string, std::string>& metadata,
                               const std::string& file);

}  // namespace bv
