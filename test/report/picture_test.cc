// Pictures of training images: smaller, side by side, as PNG.
#include "lib/report/picture.h"

#include <catch2/catch.hpp>

#include "lib/report/page/report_images.h"
#include "test/support/text.h"

namespace bv::test {

TEST_CASE("a picture is shrunk by the mean of blocks") {
  const Picture grey{2, 3, 1, {0, 10, 100, 20, 30, 101}};
  CHECK(shrunk(grey, 3).pixels == grey.pixels);
  const Picture small = shrunk(grey, 2);
  CHECK(small.height == 1);
  CHECK(small.width == 2);
  CHECK(small.pixels == std::vector<uint8_t>{15, 101});  // 60 / 4, and 201 / 2 rounded up
  const Picture colour{1, 2, 3, {0, 100, 200, 10, 110, 210}};
  CHECK(shrunk(colour, 1).pixels == std::vector<uint8_t>{5, 105, 205});
}

TEST_CASE("pictures stand in rows with a white gap") {
  const Picture one{1, 2, 1, {1, 2}}, two{1, 2, 1, {3, 4}}, three{1, 2, 1, {5, 6}};
  const Picture all = tiled({one, two, three}, 2);
  CHECK(all.height == 3);
  CHECK(all.width == 5);
  CHECK(all.pixels == std::vector<uint8_t>{1, 2, 255, 3, 4,          //
                                           255, 255, 255, 255, 255,  //
                                           5, 6, 255, 255, 255});
  CHECK(tiled({one}, 8).pixels == one.pixels);
  CHECK(tiled({}, 8).pixels.empty());
}

TEST_CASE("a picture that is none gives no PNG and no section") {
  CHECK(encode_png({}).empty());
  CHECK(encode_png({1, 1, 2, {0, 0}}).empty());
  CHECK(encode_png({1, 1, 1, {}}).empty());
  CHECK(encode_png({1, 1, 1, {7}}).starts_with("\x89PNG"));
  CHECK(render_images({}).empty());
  const std::string section = render_images({40, {{1, 1, 1, {7}}}});
  CHECK(contains(section, "batch of step 40,"));
  CHECK(contains(section, "src=\"data:image/png;base64,"));
}

TEST_CASE("the section stays small with the largest images") {
  const std::vector<Picture> images(16, {256, 256, 3, std::vector<uint8_t>(256 * 256 * 3, 9)});
  Picture noise{256, 256, 3, {}};
  uint32_t state = 1;
  for (int i = 0; i < 256 * 256 * 3; ++i)
    noise.pixels.push_back(static_cast<uint8_t>((state = state * 1664525 + 1013904223) >> 24));
  CHECK(render_images({1, images}).size() < 300'000);
  CHECK(render_images({1, std::vector<Picture>(16, noise)}).size() < 300'000);
}

}  // namespace bv::test
