// CRC-32C (Castagnoli), the checksum of TensorBoard's records; see RFC 3720, appendix B.4.
#pragma once

#include <cstdint>
#include <string_view>

namespace bv {

// Returns the CRC of `data`. To continue over several parts, pass the CRC of the parts before. Uses
// the SSE4.2 instruction if the processor has it.
uint32_t crc32c(std::string_view data, uint32_t crc = 0);
// The same without the instruction: what crc32c() falls back to.
uint32_t crc32c_by_table(std::string_view data, uint32_t crc = 0);

}  // namespace bv
