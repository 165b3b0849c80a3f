// The features of a TFDS data set, as features.json describes them
// (tensorflow_datasets/core/features), and how they are stored in a tf.train.Example
// (core/example_serializer.py, core/example_parser.py).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "lib/input/example.h"
#include "lib/input/sources/common/records/tf_example.h"

namespace bv {

struct TfdsFeature {
  enum class Kind {
    encoded,  // the bytes of an image file, as they are
    image,    // the same, decoded to (height, width, channels) uint8
    text,
    numbers
  };
  std::string name;  // nested features are joined: "objects/bbox"
  Kind kind = Kind::numbers;
  at::ScalarType dtype = at::kLong;      // of numbers
  std::vector<int64_t> shape;            // of one value; -1 where any size is allowed
  bool sequence = false;                 // a leading dimension of any size
  bool raw = false;                      // numbers are stored as their bytes
  std::vector<std::string> class_names;  // of the ClassLabel `label`, if it has names

  // Returns the value in an Example as a tensor. The bytes of images share the memory of `record`,
  // (n,) uint8, which `example` is a view of. Throws Error::bare(Exit::data) "feature 'label':
  // ...".
  at::Tensor read(const TfExample& example, const at::Tensor& record) const;
};

struct TfdsFeatures {
  std::vector<TfdsFeature> all;
  // One line for each feature that cannot be a tensor, such as videos.
  std::vector<std::string> remarks;

  const TfdsFeature* find(std::string_view name) const;
};

// Reads features.json and the class names (label.labels.txt) in the folder of a version. Images
// whose names are not in `encoded` are decoded. Throws Error(Exit::usage).
TfdsFeatures read_tfds_features(const std::string& folder, const std::set<std::string>& encoded);

}  // namespace bv
