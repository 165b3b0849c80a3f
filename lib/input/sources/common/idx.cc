#include "lib/input/sources/common/idx.h"

#include <ATen/ops/empty.h>

#include <cstring>
#include <vector>

#include "lib/input/sources/common/gzip.h"
#include "lib/util/error.h"
#include "lib/util/mapped_file.h"
#include "lib/util/text.h"
#include "lib/util/wrong_file.h"

namespace bv {
namespace {

constexpr uint32_t kIdxMagic = 0x800;  // the type is unsigned byte; the low byte is the rank

uint32_t big_endian_32(std::span<const uint8_t> bytes, size_t offset) {
  return uint32_t{bytes[offset]} << 24 | uint32_t{bytes[offset + 1]} << 16 |
         uint32_t{bytes[offset + 2]} << 8 | bytes[offset + 3];
}

// Returns the array of a file, whose rank must be in `ranks`. `what` is "images" or "labels".
at::Tensor parse(std::span<const uint8_t> bytes, const std::string& file,
                 const std::vector<uint32_t>& ranks, const char* what) {
  refuse_wrong_file(bytes, file);
  if (bytes.size() < 8) {
    throw Error(Exit::usage, file,
                fmt::format("truncated: no room for an IDX header in {} bytes", bytes.size()));
  }
  const uint32_t magic = big_endian_32(bytes, 0);
  const uint32_t rank = magic - kIdxMagic;
  if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) {
    throw Error(Exit::usage, file + " @ offset 0",
                fmt::format("bad IDX magic 0x{:08x}, expected 0x{:08x} ({})", magic,
                            kIdxMagic + ranks[0], what));
  }
  const size_t header = 4 + 4 * size_t{rank};
  if (bytes.size() < header) {
    throw Error(
        Exit::usage, file,
        fmt::format("truncated: the IDX header has {} bytes, the file {}", header, bytes.size()));
  }
  std::vector<int64_t> shape;
  std::vector<std::string> words;
  unsigned __int128 total = 1;  // four 32-bit dimensions fit
  for (uint32_t i = 0; i < rank; ++i) {
    shape.push_back(big_endian_32(bytes, 4 + 4 * i));
    words.push_back(fmt::format("{}", shape.back()));
    total *= static_cast<uint64_t>(shape.back());
    if (shape.back() == 0) {
      throw Error(Exit::usage, fmt::format("{} @ offset {}", file, 4 + 4 * i), "a dimension is 0");
    }
  }
  const size_t have = bytes.size() - header;
  if (total != have) {
    const std::string product = join(words, " x ");
    const double about = static_cast<double>(total);
    const std::string sum = total >> 63 ? fmt::format("{:.3g}", about)
                                        : fmt::format("{}", static_cast<uint64_t>(total));
    throw Error(Exit::usage, file,
                fmt::format("{}: header says {}{}{} bytes, file has {}",
                            total > have ? "truncated" : "too long", rank > 1 ? product : "",
                            rank > 1 ? " = " : "", sum, have));
  }
  at::Tensor out = at::empty(shape, at::kByte);
  std::memcpy(out.mutable_data_ptr<uint8_t>(), bytes.data() + header, have);
  return out;
}

// `each`: as for gunzip().
template <class Parse>
at::Tensor read(const std::string& file, Parse parse_bytes, uint64_t each) {
  const MappedFile mapped(file);
  if (!is_gzip(mapped.bytes())) return parse_bytes(mapped.bytes(), file);
  const Unpacked unpacked = gunzip(mapped.bytes(), file, each);
  return parse_bytes(std::span<const uint8_t>(unpacked.data.get(), unpacked.size), file);
}

}  // namespace

at::Tensor parse_idx_images(std::span<const uint8_t> bytes, const std::string& file) {
  const at::Tensor images = parse(bytes, file, {3, 4}, "images");
  return images.dim() == 3 ? images.unsqueeze(3) : images;
}

at::Tensor parse_idx_labels(std::span<const uint8_t> bytes, const std::string& file) {
  return parse(bytes, file, {1}, "labels").to(at::kLong);
}

at::Tensor read_idx_images(const std::string& file) { return read(file, parse_idx_images, 1); }
at::Tensor read_idx_labels(const std::string& file) {
  return read(file, parse_idx_labels, sizeof(int64_t));
}

void check_idx_counts(const at::Tensor& images, const std::string& image_file,
                      const at::Tensor& labels, const std::string& label_file) {
  if (images.size(0) == labels.size(0)) return;
  throw Error(
      Exit::usage, label_file,
      fmt::format("{} labels for the {} images of {}", labels.size(0), images.size(0), image_file));
}

}  // namespace bv
