#include "lib/input/image/image_file_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "lib/input/image/decode.h"
#include "lib/input/image/geometry.h"
#include "lib/input/image/orientation.h"
#include "lib/input/image/webp.h"
#include "lib/util/descriptor.h"
#include "lib/util/limits.h"
#include "lib/util/regular_file.h"

namespace bv {
namespace {

// Reads a file one block at a time. Most images need two reads.
class BlockFile {
 public:
  explicit BlockFile(const std::string& file) : file_(file) {}

  int64_t size() const { return static_cast<int64_t>(file_.size()); }
  static constexpr int64_t kBlock = 4096;

  // Returns the bytes from `offset` to the end of the block that is in memory: at least `need`
  // bytes, or all that the file has.
  std::span<const uint8_t> at(int64_t offset, int64_t need = kBlock) {
    if (offset >= size()) return {};
    need = std::min(need, size() - offset);
    if (offset < start_ || offset + need > start_ + filled_) {
      start_ = offset;
      filled_ = static_cast<int64_t>(
          file_.read(block_.data(), block_.size(), static_cast<size_t>(offset)));
    }
    return std::span<const uint8_t>(block_).subspan(offset - start_, start_ + filled_ - offset);
  }

 private:
  RegularFile file_;
  std::array<uint8_t, kBlock> block_;
  int64_t start_ = 0, filled_ = 0;
};

std::string size_problem(const char* format, int64_t height, int64_t width) {
  try {
    check_image_size(height, width);
  } catch (const Error& error) {
    return fmt::format("not a valid {}: {}", format, error.what());
  }
  return "";
}

bool find_end_marker(std::span<const uint8_t> bytes) {
  constexpr std::array<uint8_t, 2> kEnd = {0xFF, 0xD9};
  return std::search(bytes.begin(), bytes.end(), kEnd.begin(), kEnd.end()) != bytes.end();
}

// Returns whether the file has an end marker after the frame header. Pixel data never contains
// FF D9. Earlier segments may (a thumbnail), so the search starts after them.
bool has_end_marker(BlockFile& file, int64_t after) {
  if (find_end_marker(file.at(std::max(after, file.size() - BlockFile::kBlock)))) return true;
  // Not in the last block: some cameras append megabytes of their own data.
  for (int64_t offset = after; offset < file.size(); offset += BlockFile::kBlock - 1) {
    if (find_end_marker(file.at(offset))) return true;
  }
  return false;
}

std::string jpeg_problem(BlockFile& file) {
  const ByteReader read = [&](int64_t at, int64_t need) { return file.at(at, need); };
  int64_t offset = 2;
  for (int segment = 0; segment < limits::kJpegSegments; ++segment) {
    const int64_t expected = offset;
    const std::span<const uint8_t> head = next_jpeg_marker(read, offset);
    if (head.empty()) {
      const std::span<const uint8_t> first = file.at(expected, 1);
      if (first.empty() || first[0] == 0xFF) break;
      return fmt::format("not a valid JPEG: no marker at byte {}", expected);
    }
    const int marker = head[1];
    if (marker == 0x01 || (marker >= 0xD0 && marker <= 0xD7)) {  // markers without a length
      offset += 2;
      continue;
    }
    const bool frame =
        marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
    const bool scan_or_end = marker == 0xDA || marker == 0xD9;
    if (scan_or_end) return fmt::format("not a valid JPEG: no frame header before byte {}", offset);
    const int64_t length = head[2] << 8 | head[3];
    if (length < 2) return fmt::format("not a valid JPEG: bad segment at byte {}", offset);
    if (frame) {
      const std::string problem =
          size_problem("JPEG", head[5] << 8 | head[6], head[7] << 8 | head[8]);
      if (!problem.empty()) return problem;
      if (has_end_marker(file, offset + 2 + length)) return "";
      return fmt::format("not a complete JPEG: no end marker (file is {} bytes)", file.size());
    }
    offset += 2 + length;
  }
  return fmt::format("not a complete JPEG: no frame header (file is {} bytes)", file.size());
}

int64_t png_number(std::span<const uint8_t> bytes, size_t at) {
  return int64_t{bytes[at]} << 24 | bytes[at + 1] << 16 | bytes[at + 2] << 8 | bytes[at + 3];
}

// Returns whether a PNG has a chunk that ends it. Some programs append data of their own.
bool has_end_chunk(BlockFile& file) {
  constexpr std::array<uint8_t, 4> kEnd = {'I', 'E', 'N', 'D'};
  const auto tail = file.at(std::max<int64_t>(33, file.size() - BlockFile::kBlock));
  if (std::search(tail.begin(), tail.end(), kEnd.begin(), kEnd.end()) != tail.end()) return true;
  int64_t offset = 8;
  for (int chunk = 0; chunk < limits::kPngChunks; ++chunk) {
    const std::span<const uint8_t> head = file.at(offset, 8);
    if (head.size() < 8) return false;
    if (has_bytes_at(head, 4, "IEND")) return true;
    offset += 12 + png_number(head, 0);
  }
  return false;
}

std::string png_problem(BlockFile& file) {
  const std::span<const uint8_t> head = file.at(0, 33);
  constexpr std::array<uint8_t, 8> kHeader = {0, 0, 0, 13, 'I', 'H', 'D', 'R'};
  if (head.size() < 33) {
    return fmt::format("not a complete PNG: no header (file is {} bytes)", file.size());
  }
  if (!std::equal(kHeader.begin(), kHeader.end(), head.begin() + 8)) {
    return "not a valid PNG: no IHDR chunk at byte 8";
  }
  const int64_t width = png_number(head, 16), height = png_number(head, 20);
  const std::string problem = size_problem("PNG", height, width);
  if (!problem.empty()) return problem;
  if (has_end_chunk(file)) return "";
  return fmt::format("not a complete PNG: no IEND chunk (file is {} bytes)", file.size());
}

std::string webp_problem(BlockFile& file) {
  const std::span<const uint8_t> head = file.at(0, 30);
  const auto number = [&](size_t at, int count) {
    int64_t value = 0;
    for (int i = count - 1; i >= 0; --i) value = value << 8 | head[at + i];
    return value;
  };
  if (head.size() < 30)
    return fmt::format("not a complete WebP: no header (file is {} bytes)", file.size());
  const int64_t size = number(4, 4) + 8;
  if (size > file.size())
    return fmt::format("not a complete WebP: {} bytes of {}", file.size(), size);
  const auto is_first = [&](const char* chunk) { return std::memcmp(&head[12], chunk, 4) == 0; };
  constexpr int64_t kSide = (1 << 14) - 1;  // the bits of a side in VP8 and VP8L
  if (is_first("VP8X")) {
    if (number(20, 1) & 2) return std::string(kAnimatedWebp);
    return size_problem("WebP", number(27, 3) + 1, number(24, 3) + 1);
  }
  if (is_first("VP8 ")) {
    if (number(23, 3) != 0x2A019D) return "not a valid WebP: no VP8 frame at byte 20";
    return size_problem("WebP", number(28, 2) & kSide, number(26, 2) & kSide);
  }
  if (is_first("VP8L")) {
    if (number(20, 1) != 0x2F) return "not a valid WebP: no VP8L image at byte 20";
    const int64_t sides = number(21, 4);
    return size_problem("WebP", (sides >> 14 & kSide) + 1, (sides & kSide) + 1);
  }
  return "not a valid WebP: no VP8, VP8L or VP8X chunk at byte 12";
}

std::string problem_of(BlockFile& file) {
  const std::span<const uint8_t> head = file.at(0);
  const std::string format = image_format(head);
  if (format == "JPEG") return jpeg_problem(file);
  if (format == "PNG") return png_problem(file);
  if (format == "WebP") return webp_problem(file);
  return not_an_image(head);
}

}  // namespace

ImageFileCheck check_image_file(const std::string& name) try {
  BlockFile file(name);
  // Nobody could read it later (file_bytes()), and a file with holes may have any size.
  if (file.size() > static_cast<int64_t>(limits::kRecordBytes))
    return {fmt::format("{} bytes are more than the limit of 1 GiB", file.size())};
  // The orientation comes first: what it reads is still in memory for the other checks.
  const int orientation = exif_orientation(
      [&](int64_t offset, int64_t need) { return file.at(offset, need); }, file.size());
  std::string problem = problem_of(file);
  const bool good = problem.empty();
  return {std::move(problem), good ? orientation : 1};
} catch (const TooManyOpenFiles&) {
  throw;
} catch (const Error& error) {
  return {error.message()};
}

}  // namespace bv
