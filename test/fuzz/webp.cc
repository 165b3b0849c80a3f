// A WebP file.
#include "lib/input/image/webp.h"

#include <webp/decode.h>

#include "lib/input/image/orientation.h"
#include "test/fuzz/fuzz.h"

namespace bv::test {

FUZZ_TARGET(webp) {
  exif_orientation(bytes_of(input));
  int width = 0, height = 0;
  if (WebPGetInfo(bytes_of(input).data(), input.size(), &width, &height) != 0)
    decode_small(input, height, width);
}

}  // namespace bv::test
