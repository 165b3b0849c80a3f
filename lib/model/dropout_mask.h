// The random mask of a dropout or of stochastic depth, computed by the same code on the CPU and in
// the CUDA plug-in.
#pragma once

#include <array>
#include <cstdint>

#include "lib/util/philox.h"

namespace bv {

// The mask is a pure function of these fields.
struct DropoutMask {
  int64_t offset, end;  // the elements [offset, end) of the whole batch
  uint64_t threshold;   // an element is dropped if its 32-bit random number is below this
  float kept;           // the mask's value for the other elements
  uint32_t call;        // which dropout of the step this is
  uint64_t step;
  std::array<uint32_t, 2> key;

  // Philox's counter numbers blocks of 4 elements with 40 bits: 32 of its own, and the top 8 of the
  // step's upper word, which are free because a step is below 2^53.
  static constexpr int64_t kMostElements = int64_t{1} << 42;

  // The range of Philox blocks. A block has 4 elements.
  BV_INLINE int64_t first_block() const { return offset / 4; }
  BV_INLINE int64_t last_block() const { return (end + 3) / 4; }
  // Computes the elements of one block and writes element i to out[i - offset].
  BV_INLINE void fill(int64_t block, float* out) const {
    const std::array<uint32_t, 4> bits =
        philox({static_cast<uint32_t>(block), call, static_cast<uint32_t>(step),
                static_cast<uint32_t>(step >> 32) | static_cast<uint32_t>(block >> 32) << 24},
               key);
    for (int64_t k = 0; k < 4; ++k) {
      const int64_t i = 4 * block + k;
      if (i >= offset && i < end) out[i - offset] = bits[k] < threshold ? 0.0f : kept;
    }
  }
};

// The plug-in's function. It fills `out`, which has end - offset elements, on a CUDA stream. `step`
// may point to the number of the step in the device's memory; the kernel then reads it from there
// and ignores mask.step.
using FillDropoutMask = void(const DropoutMask& mask, const int64_t* step, float* out,
                             void* stream);

}  // namespace bv
