// The mask of one dropout, a pure function of its fields: what the CPU and the CUDA plug-in fill
// alike.
#pragma once

#include <array>
#include <cstdint>

#include "lib/util/philox.h"

namespace bv {

struct DropoutMask {
  int64_t offset, end;  // elements of the whole batch that are drawn
  uint64_t threshold;   // drops 32-bit draws below
  float kept;           // 1 / (1 - rate)
  std::array<uint32_t, 3> counter;
  std::array<uint32_t, 2> key;

  // Philox blocks, of 4 elements each.
  BV_INLINE int64_t first_block() const { return offset / 4; }
  BV_INLINE int64_t last_block() const { return (end + 3) / 4; }
  // Writes the elements of a block to out[element - offset].
  BV_INLINE void fill(int64_t block, float* out) const {
    const std::array<uint32_t, 4> bits =
        philox({static_cast<uint32_t>(block), counter[0], counter[1], counter[2]}, key);
    for (int64_t k = 0; k < 4; ++k) {
      const int64_t i = 4 * block + k;
      if (i >= offset && i < end) out[i - offset] = bits[k] < threshold ? 0.0f : kept;
    }
  }
};

// Of the plug-in: fills (end - offset) elements on the stream.
using FillDropoutMask = void(const DropoutMask& mask, float* out, void* stream);

}  // namespace bv
