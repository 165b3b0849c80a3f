// An npz file: a zip archive of npy arrays.
#include "lib/ckpt/formats/npz.h"

#include "test/fuzz/fuzz.h"

namespace bv::test {

FUZZ_TARGET(npz) {
  const std::string file = scratch_file("d.npz", input);
  errors_only([&] { read_npz(file); });
  errors_only([&] { list_npz(file); });
  errors_only([&] { read_npz_text(file, "names"); });
}

}  // namespace bv::test
