// The files of CIFAR-100: train.bin, fine_label_names.txt.
#include "test/fuzz/fuzz.h"

namespace bv::test {

FUZZ_TARGET(cifar) {
  const auto parts = parts_of(input);
  scratch_file("cifar/train.bin", part_of(parts, 0));
  scratch_file("cifar/test.bin", part_of(parts, 0));
  scratch_file("cifar/fine_label_names.txt", part_of(parts, 1));
  read_scratch_data("name: cifar\ndata_dir: DIR/cifar\n");
}

}  // namespace bv::test
