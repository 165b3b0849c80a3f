// Made-up findings of `bvtrain init`, for tests of the recipes that follow from them.
#pragma once

#include <cstdint>

#include "lib/init/data_findings.h"

namespace bv::test {

// Returns the findings of an image folder, sliced.
inline DataFindings photos(int64_t examples, ImageSides size, int64_t channels = 3,
                           bool equal = false) {
  DataFindings found;
  found.folder = "photos";
  found.data = {"image folder", {{"data_dir", "photos"}}, {}, "image_folder"};
  found.train = "train[:80%]";
  found.validation = "train[80%:]";
  found.sliced = true;
  found.examples = examples;
  found.train_examples = examples * 8 / 10;
  found.validation_examples = examples - found.train_examples;
  found.classes = {{"cat", examples / 2, 0}, {"dog", examples - examples / 2, 0}};
  found.images.tried = examples;
  found.images.channels = channels;
  found.images.smallest = found.images.largest = found.images.typical = size;
  found.images.equal = equal;
  return found;
}

// Returns the findings of images in arrays, sliced in the same way.
inline DataFindings arrays(int64_t examples, ImageSides size, int64_t channels) {
  DataFindings found = photos(examples, size, channels, /*equal=*/true);
  found.images.encoded = false;
  return found;
}

}  // namespace bv::test
