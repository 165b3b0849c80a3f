// Resizing HWC images with the numbers of tf.image.resize (TensorFlow 2), half-pixel centres:
// reference section 12.3.
//
// Arithmetic is float32 in TensorFlow's order of operations; uint8 results are clipped and then
// truncated, not rounded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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
std::vector<std::string> resize_method_names();
// `name` is one of resize_method_names().
ResizeMethod resize_method(const std::string& name);

// Height and width in pixels.
struct Size {
  int64_t height = 0, width = 0;
};

// The weights from one size to another, computed once and good for any number of images.
class Resizer {
 public:
  // antialias: kernels are stretched when shrinking (nearest and area are the same either way).
  // Sizes and channels are at least 1, sides at most 65536.
  Resizer(ResizeMethod method, bool antialias, Size from, Size to, int64_t channels);

  // T: uint8_t or float. in: (from.height, from.width, channels), whose rows begin `row_stride`
  // elements apart; out: (to.height, to.width, channels), contiguous. Thread-safe.
  template <class T>
  void run(const T* in, int64_t row_stride, T* out) const;

 private:
  // Output position j is the weighted sum of `count[j]` inputs from `start[j]` on.
  struct Taps {
    int32_t span = 0;            // weights stored for each output
    std::vector<int32_t> start;  // (out,), times the channels along the width
    std::vector<int32_t> count;  // (out,), at least 1
    std::vector<float> weight;   // (out, span)
  };
  // Output position j is a + (b - a) * part[j] of the inputs a = lower[j], b = upper[j].
  struct Lerps {
    std::vector<int32_t> lower, upper;  // (out,), times the channels along the width
    std::vector<float> part;            // (out,)
  };
  enum class Form { nearest, lerp, area, kernel };

  static Taps area_taps(int64_t in, int64_t out);
  static Taps bicubic_taps(int64_t in, int64_t out);
  static Taps kernel_taps(ResizeMethod method, bool antialias, int64_t in, int64_t out);
  static Lerps lerps(int64_t in, int64_t out);
  static std::vector<int32_t> nearest_indices(int64_t in, int64_t out);

  struct Kernels;  // the loops

  Size from_, to_;
  int64_t channels_;
  Form form_;
  Taps down_, across_;  // area, kernel
  Lerps lerp_down_, lerp_across_;
  std::vector<int32_t> pick_down_, pick_across_;  // nearest
  float scale_ = 1;                               // area: 1 / (pixels per output pixel)
};

}  // namespace bv
