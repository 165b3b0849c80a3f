// The pass over the images of a step, computed by the same code on the CPU and in the CUDA plug-in:
// bytes are normalized as by normalize(), and mixed as by mixup.
#pragma once

#include <cstdint>

#include "lib/util/philox.h"

namespace bv {

// The pass is a pure function of these fields and of the bytes.
struct ImagePass {
  static constexpr int kChannels = 4;

  int64_t images, width;  // the number of images, and of the values of one image
  int channels;           // of `low` and `range`; 1: they are the same for all channels
  float low[kChannels], range[kChannels];
  float scale, offset, least, most;  // the results are clipped to [least, most]
  float keep = 1, other = 0;  // keep * an image + other * the one before it, if other is not 0

  // Returns value `at` of an image. `previous` is the image before it.
  BV_INLINE float value(const uint8_t* image, const uint8_t* previous, int64_t at) const {
    const int channel = static_cast<int>(at % channels);
    const float own = normalized(image[at], channel);
    return other == 0 ? own : keep * own + other * normalized(previous[at], channel);
  }

  BV_INLINE float normalized(uint8_t byte, int channel) const {
    const float y = (static_cast<float>(byte) - low[channel]) / range[channel] * scale + offset;
    return y > most ? most : y < least ? least : y;
  }
};

// The plug-in's function. It computes `out` from `bytes`, both (images, width), on a CUDA stream.
// If `mixup` is not null, it points to two numbers in the device's memory, which take the place of
// `keep` and `other`. `before`, (width), is the image before the first one. The kernel reads it
// only if it mixes.
using RunImagePass = void(const ImagePass& pass, const float* mixup, const uint8_t* bytes,
                          const uint8_t* before, float* out, void* stream);

}  // namespace bv
