// A webdataset tar file.
#include "test/fuzz/fuzz.h"

namespace bv::test {

FUZZ_TARGET(tar) {
  scratch_file("d.tar", input);
  read_scratch_data("name: webdataset\nurls: DIR/d.tar\n");
  read_scratch_data(
      "name: webdataset\nurls: DIR/d.tar\nclasses: [cat, dog]\nfeatures: {x: json.x, label: "
      "txt}\n");
}

}  // namespace bv::test
