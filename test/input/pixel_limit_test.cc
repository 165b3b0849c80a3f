#include "lib/input/image/pixel_limit.h"

#include <ATen/ops/zeros.h>

#include <catch2/catch.hpp>

#include "lib/input/image/decode.h"
#include "test/support/config.h"
#include "test/support/error.h"
#include "test/support/image_files.h"

namespace bv::test {
namespace {

void limit(const std::string& yaml) {
  from_yaml(yaml, [](const Config& config) {
    read_max_pixels(config);
    return 0;
  });
}

// The limit is per process.
struct LimitGuard {
  ~LimitGuard() { limit("{}"); }
};

}  // namespace

TEST_CASE("an image above max_pixels is not decoded, whatever its format") {
  const LimitGuard guard;
  const std::vector<uint8_t> grey(7 * 9, 100);
  const std::string files[] = {text_of(encode_jpeg(at::zeros({7, 9, 3}, at::kByte), 90)),
                               encode_png(grey, 7, 9, SPNG_COLOR_TYPE_GRAYSCALE, 8),
                               webp_of(at::zeros({7, 9, 3}, at::kByte), false)};
  for (const std::string& file : files) {
    const auto decode = [&] { decode_image(bytes_of(file), 3, true); };
    limit("max_pixels: 63");
    CHECK(error_of(decode, Exit::data) == "");
    limit("max_pixels: 62");
    CHECK(error_of(decode, Exit::data) == "image of 7 x 9 pixels: input.max_pixels allows 62");
  }
}

TEST_CASE("max_pixels must be within the limit of all images") {
  const LimitGuard guard;
  for (const char* value : {"0", "-1", "268435457"}) {
    CHECK(
        error_of([&] { limit(std::string("max_pixels: ") + value); }) ==
        fmt::format("t.yaml:1:13: error: max_pixels: must be within 1..268435456, got {}", value));
  }
}

}  // namespace bv::test
