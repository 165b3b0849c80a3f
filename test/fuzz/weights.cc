// A weights file whose content determines its format: npz, safetensors, a pickle.
#include "lib/ckpt/weights_file.h"

#include "test/fuzz/fuzz.h"

namespace bv::test {

FUZZ_TARGET(weights) {
  const std::string file = scratch_file("weights", input);
  errors_only([&] { peek_weights(file); });
  errors_only([&] { read_weights(file, /*model_bytes=*/1 << 20); });
  errors_only([&] { read_weights_metadata(file); });
}

}  // namespace bv::test
