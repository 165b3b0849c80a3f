// An IDX file, unchanged and as a file that may be gzipped.
#include "lib/input/sources/common/idx.h"

#include "test/fuzz/fuzz.h"

namespace bv::test {

FUZZ_TARGET(idx) {
  errors_only([&] { parse_idx_images(bytes_of(input), "f"); });
  errors_only([&] { parse_idx_labels(bytes_of(input), "f"); });
  const std::string file = scratch_file("idx", input);
  errors_only([&] { read_idx_images(file); });
}

}  // namespace bv::test
