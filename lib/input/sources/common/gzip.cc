#include "lib/input/sources/common/gzip.h"

#include <libdeflate.h>

#include "lib/util/error.h"
#include "lib/util/limits.h"
#include "lib/util/text.h"

namespace bv {

bool is_gzip(std::span<const uint8_t> bytes) {
  return bytes.size() >= 2 && bytes[0] == 0x1F && bytes[1] == 0x8B;
}

Unpacked gunzip(std::span<const uint8_t> bytes, const std::string& file, uint64_t each) {
  constexpr size_t kSmallest = 18;  // header and trailer
  const auto damaged = [&] {
    return Error(Exit::usage, file,
                 fmt::format("truncated or damaged gzip data (file is {} bytes)", bytes.size()));
  };
  if (bytes.size() < kSmallest) throw damaged();
  // The last four bytes contain the unpacked size. A size that deflate can't reach is rejected
  // before memory is allocated.
  uint64_t claimed = 0;
  for (size_t i = 1; i <= 4; ++i) claimed = claimed << 8 | bytes[bytes.size() - i];
  if (claimed > limits::kDeflateRatio * bytes.size()) throw damaged();
  const uint64_t taken = each * claimed;
  if (taken > limits::kUnpackedBytes && taken > limits::kUnpackedRatio * bytes.size()) {
    throw Error(Exit::usage, file,
                fmt::format("its {} would unpack to {}: a gzip bomb, or damaged",
                            human_bytes(static_cast<double>(bytes.size())),
                            human_bytes(static_cast<double>(taken))));
  }
  const std::unique_ptr<libdeflate_decompressor, decltype(&libdeflate_free_decompressor)> codec(
      libdeflate_alloc_decompressor(), &libdeflate_free_decompressor);
  check(codec != nullptr, "no memory for a decompressor");
  Unpacked out{std::make_unique_for_overwrite<uint8_t[]>(claimed), claimed};
  size_t used = 0, made = 0;
  const libdeflate_result result = libdeflate_gzip_decompress_ex(
      codec.get(), bytes.data(), bytes.size(), out.data.get(), out.size, &used, &made);
  if (result != LIBDEFLATE_SUCCESS || used != bytes.size() || made != claimed) throw damaged();
  return out;
}

}  // namespace bv
