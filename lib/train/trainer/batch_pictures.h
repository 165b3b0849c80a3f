// Pictures of a training batch, for `log_images_*`.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "lib/report/picture.h"

namespace bv {

// Returns the first `most` of `images` (n, h, w, c) of any type as 8-bit pictures with sides of at
// most 256. The minimum and the maximum of these images become 0 and 255; NaN becomes 0.
// Images with other than 1, 3 or 4 channels are shown by their first channel. Empty if there are no
// images.
std::vector<Picture> batch_pictures(const at::Tensor& images, int64_t most);

}  // namespace bv
