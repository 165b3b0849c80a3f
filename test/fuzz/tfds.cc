// A TFDS data set: dataset_info.json, features.json, label.labels.txt and a record.
#include "test/fuzz/fuzz.h"
#include "test/support/bad_data/record_writers.h"

namespace bv::test {

FUZZ_TARGET(tfds) {
  const auto parts = parts_of(input);
  scratch_file("tfds/dataset_info.json", part_of(parts, 0));
  scratch_file("tfds/features.json", part_of(parts, 1));
  scratch_file("tfds/label.labels.txt", part_of(parts, 2));
  scratch_file("tfds/d-train.tfrecord-00000-of-00001", tfrecord(std::string(part_of(parts, 3))));
  read_scratch_data("name: tfds\ndata_dir: DIR/tfds\n");
}

}  // namespace bv::test
