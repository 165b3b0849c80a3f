// A PNG file, unchanged and with correct chunk checksums: few other files get past them.
#include "lib/input/image/png.h"

#include <libdeflate.h>

#include "lib/input/image/orientation.h"
#include "test/fuzz/fuzz.h"

namespace bv::test {
namespace {

int64_t number_at(FuzzInput file, size_t at) {
  int64_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<uint8_t>(file[at + i]);
  return value;
}

std::string with_right_checksums(FuzzInput input) {
  std::string file(input);
  for (size_t at = 8; at + 12 <= file.size();) {
    const auto length = static_cast<size_t>(number_at(file, at));
    if (length > file.size() - at - 12) break;
    const uint32_t checksum = libdeflate_crc32(0, file.data() + at + 4, length + 4);
    for (size_t i = 0; i < 4; ++i)
      file[at + 8 + length + i] = static_cast<char>(checksum >> (24 - 8 * i));
    at += 12 + length;
  }
  return file;
}

}  // namespace

FUZZ_TARGET(png) {
  constexpr size_t kHeader = 33;
  for (const std::string& file : {std::string(input), with_right_checksums(input)}) {
    exif_orientation(bytes_of(file));
    if (file.size() >= kHeader) decode_small(file, number_at(file, 20), number_at(file, 16));
  }
}

}  // namespace bv::test
