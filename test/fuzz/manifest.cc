// A checkpoint manifest, unchanged and with a correct checksum appended.
#include "lib/ckpt/manifest.h"

#include "lib/ckpt/read_checkpoint.h"
#include "lib/util/rng.h"
#include "test/fuzz/fuzz.h"

namespace bv::test {

FUZZ_TARGET(manifest) {
  const std::string text(input);
  const std::string self = fmt::format("{},\n \"self\": \"{:016x}\"\n}}\n", text, hash64(text));
  for (const std::string& content : {text, self}) {
    scratch_file("ckpt/manifest.json", content);
    errors_only([&] { read_manifest(scratch_folder() + "/ckpt"); });
    errors_only([&] { read_checkpoint(scratch_folder() + "/ckpt", {}); });
  }
}

}  // namespace bv::test
