#include "lib/report/page/png.h"

#include "lib/report/picture.h"

namespace bv {

std::string base64(std::string_view bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto byte = [&](size_t i) -> uint32_t {
    return i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0;
  };
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const uint32_t word = byte(i) << 16 | byte(i + 1) << 8 | byte(i + 2);
    for (size_t digit = 0; digit < 4; ++digit) {
      out += i + digit <= bytes.size() ? kDigits[word >> (18 - 6 * digit) & 63] : '=';
    }
  }
  return out;
}

std::string png_data_uri(const std::vector<uint8_t>& pixels, int64_t height, int64_t width,
                         int64_t channels) {
  const std::string png = encode_png({height, width, channels, pixels});
  return png.empty() ? "" : "data:image/png;base64," + base64(png);
}

}  // namespace bv
