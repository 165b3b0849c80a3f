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

bool is_gzip(std::span<const uint8_t> bytes);
// Unpacks a gzip file of one member, under 4 GiB unpacked. `file` is for messages. Throws
// Error(Exit::usage).
Unpacked gunzip(std::span<const uint8_t> bytes, const std::string& file);

}  // namespace bv
