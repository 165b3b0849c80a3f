// A JPEG file: the header, the pixels, a window of them, the orientation.
#include "lib/input/image/jpeg.h"

#include "lib/input/image/orientation.h"
#include "test/fuzz/fuzz.h"

namespace bv::test {

FUZZ_TARGET(jpeg) {
  exif_orientation(bytes_of(input));
  errors_only([&] {
    const JpegSize size = jpeg_size(bytes_of(input));
    decode_small(input, size.height, size.width);
    if (size.height * size.width > 1'000'000) return;
    const Window window{size.height / 3, size.width / 3, (size.height + 1) / 2 - size.height / 3,
                        (size.width + 1) / 2 - size.width / 3};
    if (window.height > 0 && window.width > 0)
      decode_jpeg_crop(bytes_of(input), window, 3, /*precise=*/false);
  });
}

}  // namespace bv::test
