// The EXIF orientation of image files: how an image is to be turned or mirrored before it is
// viewed. It is tag 0x0112 of the first directory of a TIFF structure, which JPEG files have in an
// APP1 segment, PNG files in an eXIf chunk and WebP files in an EXIF chunk.
//
//   1 as stored               5 mirrored along the main diagonal
//   2 mirrored left to right  6 to be turned right by 90 degrees
//   3 to be turned by 180     7 mirrored along the other diagonal
//   4 mirrored top to bottom  8 to be turned left by 90 degrees
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>

#include "lib/input/image/geometry.h"

namespace bv {

// Returns the orientation, 1..8, of an encoded image. Returns 1 if the file has none, or if what it
// has is damaged. Does not throw.
int exif_orientation(std::span<const uint8_t> bytes);

// Returns the bytes of a file from `offset` on: at least `need`, or all that the file has. The
// result is valid until the next call.
using ByteReader = std::function<std::span<const uint8_t>(int64_t offset, int64_t need)>;
// The same with few reads of at most 4096 bytes. The pixels of a PNG file may fill thousands of
// chunks, so a chunk after them is found only if it is in the last 4096 of the file's `size` bytes.
int exif_orientation(const ByteReader& read, int64_t size);

// Moves `offset` to the next marker of a JPEG file. Skips fill bytes and, as libjpeg does, stray
// bytes between two segments, but at most limits::kJpegStrayBytes. Returns the bytes from the
// marker on, which are at least 10, or none if the file has no such marker.
std::span<const uint8_t> next_jpeg_marker(const ByteReader& read, int64_t& offset);

// Returns an image (h, w, c) that is stored with `orientation` as it is to be viewed: (h, w, c), or
// (w, h, c) for orientations 5 to 8.
at::Tensor turn_upright(const at::Tensor& image, int orientation);
// Returns the upright size of an image that is stored with the size `stored` and `orientation`.
Size upright_size(const Size& stored, int orientation);
// Returns the window of the stored image that shows the same pixels as `window` of the upright
// image.
Window stored_window(const Window& window, const Size& stored, int orientation);

}  // namespace bv
