// A CSV file.
#include "test/fuzz/fuzz.h"

namespace bv::test {

FUZZ_TARGET(csv) {
  scratch_file("d.csv", input);
  read_scratch_data("name: csv\nfname: DIR/d.csv\n");
  read_scratch_data("name: csv\nfname: DIR/d.csv\nmultilabel: true\n");
  read_scratch_data("name: csv\nfname: DIR/d.csv\nclasses: [cat, dog]\nsplit_column: split\n");
}

}  // namespace bv::test
