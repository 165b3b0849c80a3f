// The folder of a data set that TensorFlow Datasets (TFDS) has prepared, read without TensorFlow:
// <root>/<name>[/<config>]/<version>/ with dataset_info.json, features.json and the files of the
// splits. See tensorflow_datasets/core, read_only_builder.py and naming.py.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/util/place.h"

namespace bv {

struct TfdsSplit {
  std::string name;
  std::vector<std::string> files;      // in the order of the shards
  std::vector<int64_t> shard_lengths;  // (files,) the number of examples in each
  int64_t size = 0;                    // their sum
};

struct TfdsFolder {
  std::string path;  // of the version
  std::string name;
  std::string file_format;  // "tfrecord", "array_record"
  std::vector<TfdsSplit> splits;
  // One line if the folder holds several versions: which one was chosen.
  std::vector<std::string> remarks;
};

// Returns the folder in which TFDS looks for data sets: `data_dir` or, if that is empty,
// $TFDS_DATA_DIR or ~/tensorflow_datasets.
std::string tfds_root(const std::string& data_dir);
// Returns whether `path` looks like a prepared data set, or a folder of versions of one.
bool is_tfds_folder(const std::string& path);

// Opens `name`, "imagenet2012", "imagenet_v2/matched-frequency" or "cifar10:3.*.*", below `root`.
// Without a version the highest one is taken; without a config the one that TFDS recorded as its
// default, or the only one. Throws Error(Exit::usage) at `place` if there is no such data set, or
// if it was prepared in a way that cannot be read.
TfdsFolder open_tfds(const std::string& name, const std::string& root, const Place& place);
// The same for a folder itself, `<version>/` or the one above (big_vision's `from_data_dir`).
TfdsFolder open_tfds_folder(const std::string& path, const Place& place);

}  // namespace bv
