// Small pictures for the report and for TensorBoard.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bv {

struct Picture {
  int64_t height = 0, width = 0, channels = 0;  // 1 channel: grey, 3: RGB, 4: RGBA
  std::vector<uint8_t> pixels;                  // [height, width, channels]
};

// Images of one step, in the order of the batch.
struct LoggedImages {
  int64_t step = 0;
  std::vector<Picture> images;
};

// Returns the picture with both sides divided by the smallest integer that makes them at most
// `most_side`. Each pixel is the mean of those that it replaces.
Picture shrunk(const Picture& from, int64_t most_side);

// Returns the pictures in rows of `columns`, with a gap of one pixel between them. All must have
// the same size. An empty picture if there are none.
Picture tiled(const std::vector<Picture>& pictures, int64_t columns);

// Returns the picture as a PNG file. Empty if it has another number of channels than 1, 3 or 4, or
// sides outside 1 .. 4096, or if its pixels do not fit its sizes.
std::string encode_png(const Picture& picture);

}  // namespace bv
