// A TFRecord file. The second part of the input becomes a record with correct checksums.
#include "test/fuzz/fuzz.h"
#include "test/support/bad_data/record_writers.h"

namespace bv::test {

FUZZ_TARGET(tfrecord) {
  const auto parts = parts_of(input);
  scratch_file("d.tfrecord", part_of(parts, 0));
  read_scratch_data("name: tfrecord\nfiles: DIR/d.tfrecord\n");
  const std::string record = tfrecord(std::string(part_of(parts, 1)));
  scratch_file("d.tfrecord", record + record);
  for (const char* keys : {"", "verify: always\nfeatures: {image: image, label: label}\n"})
    read_scratch_data(std::string("name: tfrecord\nfiles: DIR/d.tfrecord\n") + keys);
}

}  // namespace bv::test
