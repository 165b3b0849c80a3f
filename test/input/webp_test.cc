// WebP: lossy, lossless, with alpha, animated, damaged.
#include "lib/input/image/webp.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "lib/input/image/decode.h"
#include "lib/input/image/image_file_problem.h"
#include "lib/util/rng.h"
#include "test/support/error.h"
#include "test/support/folder.h"
#include "test/support/image_files.h"

namespace bv::test {
namespace {

at::Tensor noise_pixels(at::IntArrayRef shape) {
  at::Tensor image = at::empty(shape, at::kByte);
  Rng rng(5, Purpose::synthetic, 0);
  for (int64_t i = 0; i < image.numel(); ++i)
    image.mutable_data_ptr<uint8_t>()[i] = static_cast<uint8_t>(rng.below(256));
  return image;
}

// Returns a smooth image of h x w pixels.
at::Tensor ramps(int64_t height, int64_t width) {
  const at::Tensor y = at::linspace(20, 220, height).view({height, 1, 1});
  const at::Tensor x = at::linspace(200, 40, width).view({1, width, 1});
  const at::Tensor all = at::cat({y.expand({height, width, 1}), x.expand({height, width, 1}),
                                  (y + x).expand({height, width, 1}) / 2},
                                 2);
  return all.round().to(at::kByte);
}

std::string decoding_problem(const std::string& file) {
  return error_of([&] { decode_image(bytes_of(file), 3, false); }, Exit::data);
}

std::string check_problem(const std::string& file) {
  const TempFolder temp;
  return check_image_file(temp.write("x.webp", file)).problem;
}

}  // namespace

TEST_CASE("WebP: lossless files give their pixels", "[image]") {
  const at::Tensor image = noise_pixels({13, 9, 3});
  const std::string file = webp_of(image, /*lossless=*/true);
  CHECK(image_format(bytes_of(file)) == "WebP");
  CHECK(decode_image(bytes_of(file), 3, false).equal(image));
  CHECK(decode_webp(bytes_of(file), 0).equal(image));
  // Grey is the luma of a colour, as for PNG.
  const at::Tensor red = at::zeros({2, 2, 3}, at::kByte);
  red.select(2, 0).fill_(255);
  CHECK(decode_webp(bytes_of(webp_of(red, true)), 1).equal(at::full({2, 2, 1}, 76, at::kByte)));
  CHECK(check_problem(file).empty());
}

TEST_CASE("WebP: alpha is dropped and not blended", "[image]") {
  const at::Tensor image = noise_pixels({8, 11, 4});
  image.select(2, 3).fill_(1);  // nearly transparent
  const std::string file = webp_of(image, /*lossless=*/true);
  CHECK(decode_image(bytes_of(file), 3, false).equal(image.narrow(2, 0, 3)));
  CHECK(check_problem(file).empty());
}

TEST_CASE("WebP: lossy files, with and without alpha, are near their pixels", "[image]") {
  const at::Tensor image = ramps(40, 56);
  const at::Tensor alpha = at::full({40, 56, 1}, 200, at::kByte);
  for (const at::Tensor& pixels : {image, at::cat({image, alpha}, 2)}) {
    const std::string file = webp_of(pixels, /*lossless=*/false);
    const at::Tensor decoded = decode_image(bytes_of(file), 3, false);
    REQUIRE(decoded.sizes() == image.sizes());
    const at::Tensor apart = (decoded.to(at::kInt) - image.to(at::kInt)).abs();
    CHECK(apart.max().item<int>() <= 16);
    CHECK(apart.to(at::kFloat).mean().item<float>() < 3);
    CHECK(check_problem(file).empty());
  }
}

TEST_CASE("WebP: an animated file is refused", "[image]") {
  const std::string frame = webp_of(noise_pixels({4, 6, 3}), true).substr(12);
  const std::string place = number_text(0, 6, true) + number_text(5, 3, true) +
                            number_text(3, 3, true) + number_text(100, 4, true);
  const std::string file =
      webp_file(vp8x_chunk(2, 4, 6) + riff_chunk("ANIM", std::string(6, '\0')) +
                riff_chunk("ANMF", place + frame));
  CHECK(decoding_problem(file) == "animated WebP images are not supported: save one frame of it");
  CHECK(check_problem(file) == "animated WebP images are not supported: save one frame of it");
}

TEST_CASE("WebP: every shorter file is truncated", "[image]") {
  for (const bool lossless : {true, false}) {
    const std::string file = webp_of(noise_pixels({7, 7, 3}), lossless);
    for (size_t n = 12; n < file.size(); ++n) {
      INFO(n);
      CHECK(decoding_problem(file.substr(0, n)) == fmt::format("truncated WebP at byte {}", n));
    }
    CHECK(check_problem(file.substr(0, 29)) == "not a complete WebP: no header (file is 29 bytes)");
    CHECK(check_problem(file.substr(0, 40)) ==
          fmt::format("not a complete WebP: 40 bytes of {}", file.size()));
    // Data after the image is harmless.
    CHECK(decoding_problem(file + "more").empty());
    CHECK(check_problem(file + "more").empty());
  }
}

TEST_CASE("WebP: damaged headers", "[image]") {
  const std::string lossless = webp_of(noise_pixels({7, 7, 3}), true);
  const std::string lossy = webp_of(ramps(16, 16), false);
  std::string bad = lossless;
  bad[20] = 'x';
  CHECK(decoding_problem(bad) == "broken WebP: its data are damaged");
  CHECK(check_problem(bad) == "not a valid WebP: no VP8L image at byte 20");
  bad = lossy;
  bad[23] = 'x';
  CHECK(decoding_problem(bad) == "broken WebP: its data are damaged");
  CHECK(check_problem(bad) == "not a valid WebP: no VP8 frame at byte 20");
  bad = lossless;
  bad[12] = 'x';
  CHECK_THAT(decoding_problem(bad), Catch::StartsWith("broken WebP: "));
  CHECK(check_problem(bad) == "not a valid WebP: no VP8, VP8L or VP8X chunk at byte 12");
  const std::string huge = webp_file(vp8x_chunk(0, 1 << 24, 1 << 24) + lossless.substr(12));
  CHECK_THAT(decoding_problem(huge), Catch::StartsWith("broken WebP: "));
  CHECK(check_problem(huge) ==
        "not a valid WebP: image of 16777216 x 16777216 pixels: at most 65500 a side and 268435456 "
        "in total");
}

}  // namespace bv::test
