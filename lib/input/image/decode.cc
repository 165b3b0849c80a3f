#include "lib/input/image/decode.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "lib/input/image/jpeg.h"
#include "lib/input/image/png.h"
#include "lib/input/image/webp.h"
#include "lib/util/error.h"
#include "lib/util/wrong_file.h"

namespace bv {
namespace {

bool has(std::span<const uint8_t> bytes, size_t offset, std::string_view text) {
  return bytes.size() >= offset + text.size() &&
         std::equal(text.begin(), text.end(), bytes.begin() + static_cast<ptrdiff_t>(offset),
                    [](char a, uint8_t b) { return static_cast<uint8_t>(a) == b; });
}

}  // namespace

std::string image_format(std::span<const uint8_t> bytes) {
  using std::string_view_literals::operator""sv;
  if (has(bytes, 0, "\xFF\xD8\xFF"sv)) return "JPEG";
  if (has(bytes, 0, "\x89PNG\r\n\x1A\n"sv)) return "PNG";
  if (has(bytes, 0, "GIF87a"sv) || has(bytes, 0, "GIF89a"sv)) return "GIF";
  if (has(bytes, 0, "RIFF"sv) && has(bytes, 8, "WEBP"sv)) return "WebP";
  if (has(bytes, 0, "BM"sv)) return "BMP";
  if (has(bytes, 0, "II*\0"sv) || has(bytes, 0, "MM\0*"sv)) return "TIFF";
  return "";
}

std::string not_an_image(std::span<const uint8_t> bytes) {
  if (std::string why = wrong_file(bytes, "image"); !why.empty()) return why;
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
