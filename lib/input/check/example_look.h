// Inspects one example: whether it can be read and its images decoded, and what they are.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/input/check/broken_example.h"
#include "lib/input/check/data_sections.h"
#include "lib/input/check/pixel_moments.h"

namespace bv {

// One image, as it is stored: before its EXIF orientation.
struct SeenImage {
  int64_t height = 0, width = 0;
  bool alpha = false;
  int64_t bytes = 0;                     // of the encoded file, or of the array
  std::vector<PixelMoments> by_channel;  // (channels,)
};

// What else to inspect.
struct LookOptions {
  bool pp = false;       // applies the pp string
  bool moments = false;  // fills in SeenImage::by_channel, from images decoded as by the pp string
  uint64_t seed = 0;     // of the augmentation
  // The number of classes if the data does not name them, so that `labels` of this length count as
  // classes. 0: not known.
  int64_t num_classes = 0;
};

struct ExampleLook {
  std::optional<BrokenExample> broken;  // if set, what follows is not complete
  std::vector<SeenImage> images;
  std::vector<int64_t> classes;  // of its `label`, or those with a 1 in `labels`
  bool several = false;          // `labels` has several classes, or none
  bool numbers = false;          // `labels` has values other than 0 and 1, so they are not classes
  // Shapes and dtypes after pp, by feature: those of all examples must be equal.
  std::map<std::string, std::pair<std::vector<int64_t>, std::string>> form;
};

// Returns the entry of a broken example. `where`: the place of the error; may be empty.
BrokenExample broken_example(const OpenedData& opened, int64_t index, const std::string& reason,
                             const std::string& where = "");

// Reads example `index` and decodes all its images. Images are the feature `image`, and every
// feature that is an encoded image. An image whose values are not finite is broken. Throws errors
// that are not the fault of the example: wrong arguments of ops, lack of memory.
ExampleLook look_at_example(const OpenedData& opened, int64_t index, const LookOptions& options);

}  // namespace bv
