// CRC-32C (Castagnoli), the checksum of TFRecord files and TensorBoard's events; see RFC 3720,
// appendix B.4.
#pragma once

#include <cstdint>
#include <string_view>

namespace bv {

// Returns the CRC of `data`. To continue over several parts, pass the CRC of the parts before. Uses
// the SSE4.2 instruction if the processor has it.
uint32_t crc32c(std::string_view data, uint32_t crc = 0);
// The same without the instruction: what crc32c() falls back to.
uint32_t crc32c_by_table(std::string_view data, uint32_t crc = 0);

// Returns a CRC as TFRecord files store it (tensorflow/core/lib/hash/crc32c.h, Mask).
constexpr uint32_t masked_crc32c(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U; }

}  // namespace bv
