// The header of a safetensors file: a parser that checks everything, and a writer. Needs no torch.
// Format: github.com/huggingface/safetensors (README, "Format").
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace bv {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;  // one of the names at safetensors_element_bytes()
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;  // bytes from the start of the data section
  uint64_t position = 0;        // offset of the name in the file, for messages
};

struct SafetensorsHeader {
  uint64_t data = 0;  // offset of the data section in the file
  // In the order of their data, which fills the data section without gaps and overlaps.
  std::vector<SafetensorsEntry> entries;
  std::map<std::string, std::string> metadata;  // the object __metadata__; empty if there is none
};

// Returns the bytes of one element of F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL; 0 for any other
// name.
uint64_t safetensors_element_bytes(const std::string& dtype);

// Parses and checks the header of a file of `bytes` bytes. `start` holds its first
// safetensors_header_bytes() bytes or more; `file` is its name, for messages. Throws
// Error(Exit::usage) "file @ offset N: error: ...".
SafetensorsHeader parse_safetensors_header(std::span<const uint8_t> start, uint64_t bytes,
                                           const std::string& file);

// The length of the number with which a file begins, and how many bytes of the file the parser
// needs, given that number: at most `bytes`, all of the file.
inline constexpr uint64_t kSafetensorsLengthBytes = 8;
uint64_t safetensors_header_bytes(std::span<const uint8_t> start, uint64_t bytes);

// Returns length and JSON, padded with spaces so that the data begins at a multiple of 64 bytes.
// Throws Error(Exit::storage) at `file` if the JSON is longer than limits::kSafetensorsHeaderBytes.
std::string safetensors_header(const std::vector<SafetensorsEntry>& entries,
                               const std::map<std::string, std::string>& metadata,
                               const std::string& file);

}  // namespace bv
