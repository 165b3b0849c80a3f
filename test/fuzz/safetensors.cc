// A safetensors file.
#include "lib/ckpt/formats/safetensors.h"

#include "test/fuzz/fuzz.h"

namespace bv::test {

FUZZ_TARGET(safetensors) {
  const auto bytes = bytes_of(input);
  errors_only([&] { parse_safetensors_header(bytes, bytes.size(), "f"); });
  const std::string file = scratch_file("d.safetensors", input);
  errors_only([&] { read_safetensors(file); });
}

}  // namespace bv::test
