// Resizer: resizes images with the results of tf.image.resize (TensorFlow 2, half-pixel centres).
//
// The arithmetic is float32 in TensorFlow's order of operations. uint8 results are clipped and then
// truncated, not rounded. With s = input side / output side and c = (j + 0.5) s for output j:
//   method     antialias = false                          antialias = true
//   nearest    the input pixel floor(c)                   the same
//   bilinear   interpolates the 2 pixels around c - 0.5   triangle kernel, stretched by max(s, 1)
//   bicubic    Keys kernel with a = -0.5                  the same, stretched by max(s, 1)
//   area       exact mean over [j s, (j + 1) s)           the same
//   lanczos3, lanczos5, gaussian, mitchellcubic: their kernel, stretched only if antialias
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/input/image/geometry.h"

namespace bv {

enum class ResizeMethod {
  nearest,
  bilinear,
  bicubic,
  area,
  lanczos3,
  lanczos5,
  gaussian,
  mitchellcubic
};
// Returns the names of the methods, as pp strings write them.
std::vector<std::string> resize_method_names();
// Returns the method called `name`, which must be one of resize_method_names().
ResizeMethod resize_method(const std::string& name);

// Holds the weights for resizing from one size to another. They are computed once and can be used
// for any number of images. Thread-safe.
class Resizer {
 public:
  // Sides are within 1 .. 65536, channels at least 1.
  Resizer(ResizeMethod method, bool antialias, Size from, Size to, int64_t channels);

  // Resizes one image. T is uint8_t or float. in: (from.height, from.width, channels), whose rows
  // begin `row_stride` elements apart. out: (to.height, to.width, channels), contiguous.
  template <class T>
  void run(const T* in, int64_t row_stride, T* out) const;

 private:
  // Output position j is the weighted sum of `count[j]` inputs, beginning with input `start[j]`.
  struct Taps {
    int32_t span = 0;            // number of weights stored for each output
    std::vector<int32_t> start;  // (out,); along the width multiplied by the channels
    std::vector<int32_t> count;  // (out,), at least 1
    std::vector<float> weight;   // (out, span)
  };
  // Output position j is a + (b - a) * part[j] of the inputs a = lower[j] and b = upper[j].
  struct Lerps {
    std::vector<int32_t> lower, upper;  // (out,); along the width multiplied by the channels
    std::vector<float> part;            // (out,)
  };
  enum class Algorithm { nearest, lerp, area, kernel };

  // The weights along one axis (resizer_weights.cc). in, out: the number of pixels.
  static Taps area_taps(int64_t in, int64_t out);
  static Taps bicubic_taps(int64_t in, int64_t out);
  static Taps kernel_taps(ResizeMethod method, bool antialias, int64_t in, int64_t out);
  static Lerps lerps(int64_t in, int64_t out);
  static std::vector<int32_t> nearest_indices(int64_t in, int64_t out);

  struct Kernels;  // the loops (resizer.cc)

  // "down" is along the height, "across" along the width.
  Size from_, to_;
  int64_t channels_;
  Algorithm algorithm_;
  Taps down_, across_;                            // area, kernel
  Lerps lerp_down_, lerp_across_;                 // lerp
  std::vector<int32_t> pick_down_, pick_across_;  // nearest
  float scale_ = 1;                               // area: 1 / (pixels per output pixel)
};

}  // namespace bv
