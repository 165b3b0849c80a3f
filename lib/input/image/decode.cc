#include "lib/input/image/decode.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "lib/input/image/image_suffix.h"
#include "lib/input/image/jpeg.h"
#include "lib/input/image/png.h"
#include "lib/input/image/webp.h"
#include "lib/util/error.h"
#include "lib/util/printable.h"
#include "lib/util/wrong_file.h"

namespace bv {
namespace {

// Returns the bytes as text if they are the name of an image file, and otherwise "".
std::string image_name(std::span<const uint8_t> bytes) {
  constexpr size_t kLongest = 1000;
  if (bytes.size() > kLongest) return "";
  std::string text(bytes.begin(), bytes.end());
  return has_image_suffix(text) && printable(text, kLongest) == text ? text : "";
}

}  // namespace

bool has_bytes_at(std::span<const uint8_t> bytes, size_t offset, std::string_view text) {
  return bytes.size() >= offset + text.size() &&
         std::equal(text.begin(), text.end(), bytes.begin() + static_cast<ptrdiff_t>(offset),
                    [](char a, uint8_t b) { return static_cast<uint8_t>(a) == b; });
}

std::string image_format(std::span<const uint8_t> bytes) {
  using std::string_view_literals::operator""sv;
  if (has_bytes_at(bytes, 0, "\xFF\xD8\xFF"sv)) return "JPEG";
  if (has_bytes_at(bytes, 0, "\x89PNG\r\n\x1A\n"sv)) return "PNG";
  if (has_bytes_at(bytes, 0, "GIF87a"sv) || has_bytes_at(bytes, 0, "GIF89a"sv)) return "GIF";
  if (has_bytes_at(bytes, 0, "RIFF"sv) && has_bytes_at(bytes, 8, "WEBP"sv)) return "WebP";
  if (has_bytes_at(bytes, 0, "BM"sv)) return "BMP";
  if (has_bytes_at(bytes, 0, "II*\0"sv) || has_bytes_at(bytes, 0, "MM\0*"sv)) return "TIFF";
  if (!has_bytes_at(bytes, 4, "ftyp"sv)) return "";
  const auto is_brand = [&](std::string_view brand) { return has_bytes_at(bytes, 8, brand); };
  if (is_brand("heic") || is_brand("heix") || is_brand("hevc")) return "HEIC";
  if (is_brand("mif1") || is_brand("msf1")) return "HEIF";
  if (is_brand("avif") || is_brand("avis")) return "AVIF";
  return "";
}

std::string not_an_image(std::span<const uint8_t> bytes) {
  if (std::string why = wrong_file(bytes, "image"); !why.empty()) return why;
  if (const std::string name = image_name(bytes); !name.empty()) {
    return fmt::format(
        "not an image, but the string '{}': for jsonl data, 'fopen_keys: [image]' reads the files "
        "that the rows name",
        printable(name));
  }
  const std::string format = image_format(bytes);
  if (!format.empty()) {
    return fmt::format("{} images are not supported: convert it to JPEG, PNG or WebP", format);
  }
  std::string start;
  for (size_t i = 0; i < std::min<size_t>(bytes.size(), 4); ++i) {
    start += fmt::format("{}{:02X}", i ? " " : "", bytes[i]);
  }
  return fmt::format("not a JPEG, PNG or WebP image: it begins with {}", start);
}

at::Tensor decode_image(std::span<const uint8_t> bytes, int channels, bool precise) {
  const std::string format = image_format(bytes);
  if (format == "JPEG") return decode_jpeg(bytes, channels, precise);
  if (format == "PNG") return decode_png(bytes, channels);
  if (format == "WebP") return decode_webp(bytes, channels);
  throw Error::bare(Exit::data, not_an_image(bytes));
}

}  // namespace bv
