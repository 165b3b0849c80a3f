#include "lib/input/image/geometry.h"

#include "lib/util/error.h"
#include "lib/util/limits.h"

namespace bv {

void check_image_size(int64_t height, int64_t width) {
  if (height < 1 || width < 1 || height > limits::kImageSide || width > limits::kImageSide ||
      height * width > limits::kImagePixels) {
    throw Error::bare(Exit::data,
                      fmt::format("image of {} x {} pixels: at most {} a side and {} in total",
                                  height, width, limits::kImageSide, limits::kImagePixels));
  }
}

}  // namespace bv
