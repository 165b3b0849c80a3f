// Unpacking of gzip files in memory, by libdeflate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace bv {

struct Unpacked {
  std::unique_ptr<uint8_t[]> data;
  size_t size = 0;
};

// Returns whether the bytes begin with gzip's magic number.
bool is_gzip(std::span<const uint8_t> bytes);
// Unpacks a gzip file with one member whose content is smaller than 4 GiB. `file` is for messages.
// `each` is the number of bytes that the caller then makes of each unpacked byte; they count when a
// file that grows too much is refused. Throws Error(Exit::usage).
Unpacked gunzip(std::span<const uint8_t> bytes, const std::string& file, uint64_t each = 1);

}  // namespace bv
