#include "lib/input/image/orientation.h"

#include <ATen/ops/flip.h>
#include <libdeflate.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/input/image/decode.h"
#include "lib/util/limits.h"

namespace bv {
namespace {

using Bytes = std::span<const uint8_t>;
constexpr int kAsStored = 1;
constexpr int64_t kPngTail = 4096;

int64_t big_endian(Bytes bytes, size_t at, int count) {
  int64_t value = 0;
  for (int i = 0; i < count; ++i) value = value << 8 | bytes[at + i];
  return value;
}

int64_t little_endian(Bytes bytes, size_t at, int count) {
  int64_t value = 0;
  for (int i = count - 1; i >= 0; --i) value = value << 8 | bytes[at + i];
  return value;
}

ByteReader reader_of(Bytes bytes) {
  return [bytes](int64_t offset, int64_t) {
    return bytes.subspan(std::min<size_t>(offset, bytes.size()));
  };
}

// Returns the orientation in a TIFF structure that takes `length` bytes from `start` on.
int tiff_orientation(const ByteReader& read, int64_t start, int64_t length) {
  using std::string_view_literals::operator""sv;
  constexpr int64_t kEntry = 12;
  constexpr int64_t kTag = 0x0112, kShort = 3, kLong = 4;
  const auto part = [&](int64_t offset, int64_t need) -> Bytes {
    if (offset + need > length) return {};
    const Bytes found = read(start + offset, need);
    return found.size() < static_cast<size_t>(need) ? Bytes{} : found;
  };
  Bytes bytes = part(0, 8);
  const bool little = has_bytes_at(bytes, 0, "II*\0"sv);
  if (!little && !has_bytes_at(bytes, 0, "MM\0*"sv)) return kAsStored;
  const auto number = [&](size_t at, int count) {
    return little ? little_endian(bytes, at, count) : big_endian(bytes, at, count);
  };
  const int64_t directory = number(4, 4);
  bytes = part(directory, 2);
  if (bytes.empty()) return kAsStored;
  const int64_t entries = std::min(number(0, 2), limits::kExifEntries);
  for (int64_t i = 0; i < entries; ++i) {
    bytes = part(directory + 2 + kEntry * i, kEntry);
    if (bytes.empty()) return kAsStored;
    if (number(0, 2) != kTag) continue;
    const int64_t type = number(2, 2);
    const int64_t value = type == kShort ? number(8, 2) : type == kLong ? number(8, 4) : kAsStored;
    return value >= 1 && value <= 8 ? static_cast<int>(value) : kAsStored;
  }
  return kAsStored;
}

int jpeg_orientation(const ByteReader& read) {
  using std::string_view_literals::operator""sv;
  int64_t offset = 2;
  for (int segment = 0; segment < limits::kJpegSegments; ++segment) {
    const Bytes head = next_jpeg_marker(read, offset);
    if (head.empty()) return kAsStored;
    const int marker = head[1];
    if (marker == 0x01 || (marker >= 0xD0 && marker <= 0xD7)) {  // markers without a length
      offset += 2;
      continue;
    }
    if (marker == 0xDA || marker == 0xD9) return kAsStored;  // the pixels, or the end
    const int64_t length = big_endian(head, 2, 2);
    if (length < 2) return kAsStored;
    if (marker == 0xE1 && has_bytes_at(head, 4, "Exif\0\0"sv))
      return tiff_orientation(read, offset + 10, length - 8);
    offset += 2 + length;
  }
  return kAsStored;
}

// Searches the last bytes of a PNG file, from `first` on or later, for an eXIf chunk.
int late_png_orientation(const ByteReader& read, int64_t first, int64_t size) {
  constexpr std::string_view kType = "eXIf";
  const Bytes tail = read(std::max(first, size - kPngTail), kPngTail);
  for (auto at = tail.begin();; ++at) {
    at = std::search(at, tail.end(), kType.begin(), kType.end());
    if (at == tail.end()) return kAsStored;
    const auto type = static_cast<size_t>(at - tail.begin());
    if (type < 4) continue;
    const auto length = static_cast<size_t>(big_endian(tail, type - 4, 4));
    if (type + 4 + length + 4 > tail.size()) continue;
    // Pixel data may contain these letters, too.
    const uint32_t checksum = libdeflate_crc32(0, &tail[type], 4 + length);
    if (checksum != big_endian(tail, type + 4 + length, 4)) continue;
    return tiff_orientation(reader_of(tail.subspan(type + 4, length)), 0,
                            static_cast<int64_t>(length));
  }
}

int png_orientation(const ByteReader& read, int64_t size, bool in_memory) {
  int64_t offset = 8;
  for (int chunk = 0; chunk < limits::kPngChunks; ++chunk) {
    const Bytes head = read(offset, 8);
    if (head.size() < 8) return kAsStored;
    const int64_t length = big_endian(head, 0, 4);
    if (has_bytes_at(head, 4, "eXIf")) return tiff_orientation(read, offset + 8, length);
    // The pixels may be in thousands of chunks.
    if (!in_memory && has_bytes_at(head, 4, "IDAT"))
      return late_png_orientation(read, offset, size);
    offset += 12 + length;
  }
  return kAsStored;
}

int webp_orientation(const ByteReader& read) {
  using std::string_view_literals::operator""sv;
  int64_t offset = 12;
  for (int chunk = 0; chunk < limits::kWebpChunks; ++chunk) {
    const Bytes head = read(offset, 8);
    if (head.size() < 8) return kAsStored;
    // A file that does not begin with this chunk contains only pixels.
    if (chunk == 0 && !has_bytes_at(head, 0, "VP8X")) return kAsStored;
    const int64_t length = little_endian(head, 4, 4);
    if (!has_bytes_at(head, 0, "EXIF")) {
      offset += 8 + length + length % 2;
      continue;
    }
    // Some programs write the prefix that JPEG files have.
    const int64_t prefix = has_bytes_at(read(offset + 8, 6), 0, "Exif\0\0"sv) ? 6 : 0;
    return tiff_orientation(read, offset + 8 + prefix, length - prefix);
  }
  return kAsStored;
}

int orientation_of(const ByteReader& read, int64_t size, bool in_memory) {
  const std::string format = image_format(read(0, 16));
  if (format == "JPEG") return jpeg_orientation(read);
  if (format == "PNG") return png_orientation(read, size, in_memory);
  if (format == "WebP") return webp_orientation(read);
  return kAsStored;
}

// An orientation as a transposition followed by mirroring.
struct Turn {
  bool transpose, flip_rows, flip_columns;
};

Turn turn_of(int orientation) {
  constexpr Turn kTurns[] = {{false, false, false}, {false, false, true}, {false, true, true},
                             {false, true, false},  {true, false, false}, {true, false, true},
                             {true, true, true},    {true, true, false}};
  return kTurns[std::clamp(orientation, 1, 8) - 1];
}

}  // namespace

std::span<const uint8_t> next_jpeg_marker(const ByteReader& read, int64_t& offset) {
  constexpr size_t kHead = 10;
  const int64_t last = offset + limits::kJpegStrayBytes;
  for (Bytes bytes = read(offset, kHead); bytes.size() >= kHead && offset <= last;
       bytes = read(offset, kHead)) {
    const auto at = std::adjacent_find(bytes.begin(), bytes.end(), [](uint8_t mark, uint8_t next) {
      return mark == 0xFF && next != 0xFF && next != 0;
    });
    if (at == bytes.begin()) return bytes;
    // The last byte may be the first half of a marker.
    offset += at == bytes.end() ? std::ssize(bytes) - 1 : at - bytes.begin();
  }
  return {};
}

int exif_orientation(std::span<const uint8_t> bytes) {
  return orientation_of(reader_of(bytes), std::ssize(bytes), /*in_memory=*/true);
}

int exif_orientation(const ByteReader& read, int64_t size) {
  return orientation_of(read, size, /*in_memory=*/false);
}

at::Tensor turn_upright(const at::Tensor& image, int orientation) {
  const Turn turn = turn_of(orientation);
  std::vector<int64_t> flipped;
  if (turn.flip_rows) flipped.push_back(0);
  if (turn.flip_columns) flipped.push_back(1);
  const at::Tensor turned = turn.transpose ? image.transpose(0, 1) : image;
  return (flipped.empty() ? turned : at::flip(turned, flipped)).contiguous();
}

Size upright_size(const Size& stored, int orientation) {
  if (turn_of(orientation).transpose) return {stored.width, stored.height};
  return stored;
}

Window stored_window(const Window& window, const Size& stored, int orientation) {
  const Turn turn = turn_of(orientation);
  const Size upright = upright_size(stored, orientation);
  Window found = window;
  if (turn.flip_rows) found.y = upright.height - window.y - window.height;
  if (turn.flip_columns) found.x = upright.width - window.x - window.width;
  if (turn.transpose) {
    std::swap(found.y, found.x);
    std::swap(found.height, found.width);
  }
  return found;
}

}  // namespace bv
