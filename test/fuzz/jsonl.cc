// A JSON Lines file.
#include "test/fuzz/fuzz.h"

namespace bv::test {

FUZZ_TARGET(jsonl) {
  scratch_file("d.jsonl", input);
  read_scratch_data("name: jsonl\nfname: DIR/d.jsonl\n");
  read_scratch_data("name: jsonl\nfname: DIR/d.jsonl\nfopen_keys: [image]\nsplit_column: split\n");
}

}  // namespace bv::test
