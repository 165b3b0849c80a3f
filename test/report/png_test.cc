// Pictures inside a page: PNG and base64.
#include "lib/report/page/png.h"

#include <spng.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

TEST_CASE("base64: the vectors of RFC 4648") {
  CHECK(bv::base64("").empty());
  CHECK(bv::base64("f") == "Zg==");
  CHECK(bv::base64("fo") == "Zm8=");
  CHECK(bv::base64("foo") == "Zm9v");
  CHECK(bv::base64("foob") == "Zm9vYg==");
  CHECK(bv::base64("foobar") == "Zm9vYmFy");
  CHECK(bv::base64("\xff\xfe\xfd") == "//79");
}

TEST_CASE("png: the data decodes to the same pixels") {
  const auto decode64 = [](const std::string& text) {
    const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string bytes;
    uint32_t word = 0;
    int bits = 0;
    for (const char c : text) {
      if (c == '=') break;
      word = word << 6 | static_cast<uint32_t>(digits.find(c));
      bits += 6;
      if (bits >= 8) bytes += static_cast<char>(word >> (bits -= 8));
    }
    return bytes;
  };
  for (const int64_t channels : {1, 3, 4}) {
    std::vector<uint8_t> pixels;
    for (int i = 0; i < 5 * 7 * channels; ++i) pixels.push_back(static_cast<uint8_t>(i * 31));
    const std::string uri = bv::png_data_uri(pixels, 5, 7, channels);
    const std::string head = "data:image/png;base64,";
    REQUIRE(uri.substr(0, head.size()) == head);
    const std::string png = decode64(uri.substr(head.size()));
    spng_ctx* context = spng_ctx_new(0);
    REQUIRE(spng_set_png_buffer(context, png.data(), png.size()) == 0);
    spng_ihdr header{};
    REQUIRE(spng_get_ihdr(context, &header) == 0);
    CHECK((header.width == 7 && header.height == 5 && header.bit_depth == 8));
    std::vector<uint8_t> back(pixels.size());
    size_t size = 0;
    REQUIRE(spng_decoded_image_size(context, SPNG_FMT_PNG, &size) == 0);
    REQUIRE(size == back.size());
    REQUIRE(spng_decode_image(context, back.data(), back.size(), SPNG_FMT_PNG, 0) == 0);
    CHECK(back == pixels);
    spng_ctx_free(context);
  }
  CHECK(bv::png_data_uri({1, 2}, 1, 1, 2).empty());
  CHECK(bv::png_data_uri({1}, 1, 2, 1).empty());
  CHECK(bv::png_data_uri({}, 0, 0, 1).empty());
  CHECK(bv::png_data_uri({1}, -1, -1, 1).empty());
}
