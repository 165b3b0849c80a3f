// The EXIF orientation: found in JPEG, PNG and WebP files, applied by the ops, counted by folders.
#include "lib/input/image/orientation.h"

#include <ATen/ATen.h>
#include <libdeflate.h>

#include <catch2/catch.hpp>

#include "lib/input/image/decode.h"
#include "lib/input/image/image_file_problem.h"
#include "lib/util/rng.h"
#include "test/input/op_support.h"
#include "test/support/folder.h"
#include "test/support/image_files.h"

namespace bv::test {
namespace {

at::Tensor file_tensor(const std::string& file) {
  return at::from_blob(const_cast<char*>(file.data()), {std::ssize(file)}, at::kByte).clone();
}

// Returns the image [[1, 2, 3], [4, 5, 6]] as it should be viewed, as rows of digits.
const char* upright_rows(int orientation) {
  constexpr const char* kRows[] = {"123 456",  "321 654",  "654 321",  "456 123",
                                   "14 25 36", "41 52 63", "63 52 41", "36 25 14"};
  return kRows[orientation - 1];
}

std::string digit_rows(const at::Tensor& image) {
  std::string text;
  for (int64_t y = 0; y < image.size(0); ++y) {
    if (y > 0) text += ' ';
    for (int64_t x = 0; x < image.size(1); ++x)
      text += static_cast<char>('0' + image[y][x][0].item<int>());
  }
  return text;
}

at::Tensor digits() {
  return at::arange(1, 7, at::kByte).view({2, 3, 1}).expand({2, 3, 3}).contiguous();
}

std::string png_chunk(const std::string& type, const std::string& content) {
  const std::string body = type + content;
  return number_text(content.size(), 4, false) + body +
         number_text(libdeflate_crc32(0, body.data(), body.size()), 4, false);
}

// Returns a PNG file with an eXIf chunk before its pixels, or behind them.
std::string png_with_exif(const std::string& file, const std::string& exif, bool late = false) {
  const size_t at = late ? file.size() - 12 : 33;
  return file.substr(0, at) + png_chunk("eXIf", exif) + file.substr(at);
}

int orientation_on_disk(const std::string& file) {
  const TempFolder temp;
  const ImageFileCheck found = check_image_file(temp.write("x", file));
  CHECK(found.problem.empty());
  return found.orientation;
}

}  // namespace

TEST_CASE("all eight orientations are turned upright", "[orientation]") {
  for (int orientation = 1; orientation <= 8; ++orientation) {
    INFO(orientation);
    CHECK(digit_rows(turn_upright(digits(), orientation)) == upright_rows(orientation));
    for (const bool little : {true, false}) {
      const std::string exif = exif_data(orientation, little);
      const std::string webp = webp_of(digits(), true);
      for (const std::string& file :
           {png_with_exif(png_of(digits()), exif), png_with_exif(png_of(digits()), exif, true),
            webp_with_exif(webp, exif, 2, 3),
            webp_with_exif(webp, std::string("Exif\0\0", 6) + exif, 2, 3)}) {
        CHECK(exif_orientation(bytes_of(file)) == orientation);
        CHECK(orientation_on_disk(file) == orientation);
        const Example image = {{"image", file_tensor(file)}};
        CHECK(digit_rows(run_pp("decode(exif=True)", image).at("image")) ==
              upright_rows(orientation));
        CHECK(digit_rows(run_pp("decode", image).at("image")) == upright_rows(1));
      }
      const std::string jpeg = jpeg_with_exif(flat_jpeg(90), exif);
      CHECK(exif_orientation(bytes_of(jpeg)) == orientation);
      CHECK(orientation_on_disk(jpeg) == orientation);
    }
  }
}

TEST_CASE("an orientation may be stored as a number of four bytes", "[orientation]") {
  for (const bool little : {true, false}) {
    std::string exif = exif_data(6, little);
    exif.replace(24, 2, number_text(4, 2, little));  // the type LONG
    exif.replace(30, 4, number_text(8, 4, little));
    CHECK(exif_orientation(bytes_of(jpeg_with_exif(flat_jpeg(90), exif))) == 8);
    exif.replace(30, 4, number_text(0x10006, 4, little));
    CHECK(exif_orientation(bytes_of(jpeg_with_exif(flat_jpeg(90), exif))) == 1);
  }
}

TEST_CASE("images without EXIF data, or with damaged data, stay as stored", "[orientation]") {
  const std::string jpeg = flat_jpeg(90);
  for (const std::string& file : {jpeg, png_of(digits()), webp_of(digits(), true)}) {
    CHECK(exif_orientation(bytes_of(file)) == 1);
    CHECK(orientation_on_disk(file) == 1);
  }
  for (const int value : {0, 9, 255, 65535})
    CHECK(exif_orientation(bytes_of(jpeg_with_exif(jpeg, exif_data(value)))) == 1);
  const std::string whole = exif_data(6);
  CHECK(exif_orientation(bytes_of(jpeg_with_exif(jpeg, whole))) == 6);
  // The orientation is in the first 32 bytes.
  for (size_t n = 0; n < 32; ++n)
    CHECK(exif_orientation(bytes_of(jpeg_with_exif(jpeg, whole.substr(0, n)))) == 1);
  Rng rng(3, Purpose::synthetic, 0);
  for (const std::string& good :
       {jpeg_with_exif(jpeg, whole), png_with_exif(png_of(digits()), whole, true),
        webp_with_exif(webp_of(digits(), true), whole, 2, 3)}) {
    for (int i = 0; i < 3000; ++i) {
      std::string bad = good;
      for (int k = 0; k < 3; ++k) bad[rng.below(std::ssize(bad))] = static_cast<char>(rng.bits());
      if (i % 5 == 0) bad.resize(rng.below(std::ssize(bad)));
      const int found = exif_orientation(bytes_of(bad));
      CHECK((found >= 1 && found <= 8));
    }
  }
}

TEST_CASE("the orientation is found behind long segments and chunks", "[orientation]") {
  const std::string jpeg = flat_jpeg(90);
  const std::string profile = jpeg_segment(2, std::string(65000, 'p'));
  const std::string turned = jpeg_with_exif(jpeg, exif_data(8));
  const std::string far = turned.substr(0, 2) + profile + profile + turned.substr(2);
  CHECK(exif_orientation(bytes_of(far)) == 8);
  CHECK(orientation_on_disk(far) == 8);
  // Another kind of APP1 segment comes first.
  const std::string two =
      turned.substr(0, 2) + jpeg_segment(1, "http://ns.adobe.com/xap/1.0/") + turned.substr(2);
  CHECK(orientation_on_disk(two) == 8);
  // A directory that does not follow the header.
  std::string exif = exif_data(3);
  exif = exif.substr(0, 4) + number_text(6008, 4, true) + std::string(6000, 'x') + exif.substr(8);
  CHECK(orientation_on_disk(jpeg_with_exif(jpeg, exif)) == 3);

  // Letters in other chunks of a PNG file are no eXIf chunk.
  const std::string png = png_of(digits());
  const std::string text = png_chunk("tEXt", std::string("a\0eXIf", 6) + exif_data(6));
  const std::string noted = png.substr(0, png.size() - 12) + text + png.substr(png.size() - 12);
  CHECK(exif_orientation(bytes_of(noted)) == 1);
  CHECK(orientation_on_disk(noted) == 1);
  CHECK(orientation_on_disk(png_with_exif(noted, exif_data(6), true)) == 6);
}

TEST_CASE("stray bytes between the segments of a JPEG are skipped, as libjpeg skips them",
          "[orientation]") {
  const std::string plain = flat_jpeg(90);
  const std::string exif = jpeg_segment(1, std::string("Exif\0\0", 6) + exif_data(6));
  const size_t at = 20;  // the end of the first segment
  const at::Tensor image = decode_image(bytes_of(plain), 3, true);
  std::vector<std::string> all_strays = {"abc", std::string("\xFF\0\0\xFF\xFF", 5)};
  // Markers at the end of a block of the file.
  for (size_t n = 4060; n < 4080; ++n) all_strays.emplace_back(n, 'x');
  for (const std::string& stray : all_strays) {
    CAPTURE(stray.size());
    const std::string file = plain.substr(0, at) + stray + exif + plain.substr(at);
    CHECK(exif_orientation(bytes_of(file)) == 6);
    CHECK(orientation_on_disk(file) == 6);
    CHECK(decode_image(bytes_of(file), 3, true).equal(image));
  }
}

TEST_CASE("a window of the upright image is found in the stored one", "[orientation]") {
  const at::Tensor stored = at::arange(5 * 7, at::kByte).view({5, 7, 1});
  Rng rng(4, Purpose::synthetic, 0);
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const at::Tensor upright = turn_upright(stored, orientation);
    const Size size = upright_size({5, 7}, orientation);
    REQUIRE(upright.sizes() == at::IntArrayRef({size.height, size.width, 1}));
    const auto cut = [](const at::Tensor& image, const Window& window) {
      return image.narrow(0, window.y, window.height).narrow(1, window.x, window.width);
    };
    for (int i = 0; i < 50; ++i) {
      Window window;
      window.height = 1 + rng.below(size.height);
      window.width = 1 + rng.below(size.width);
      window.y = rng.below(size.height - window.height + 1);
      window.x = rng.below(size.width - window.width + 1);
      const Window found = stored_window(window, {5, 7}, orientation);
      CHECK(turn_upright(cut(stored, found), orientation).equal(cut(upright, window)));
    }
  }
}

TEST_CASE("decode_jpeg_and_inception_crop(exif=True) crops the upright image", "[orientation]") {
  const at::Tensor y = at::arange(48).view({48, 1, 1}), x = at::arange(80).view({1, 80, 1});
  const at::Tensor image = at::cat({(4 * y).expand({48, 80, 1}), (3 * x).expand({48, 80, 1}),
                                    (y + x).expand({48, 80, 1})},
                                   2)
                               .to(at::kByte);
  const std::string plain = text_of(encode_jpeg(image, 95));
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const std::string exif = exif_data(orientation);
    for (const std::string& file :
         {jpeg_with_exif(plain, exif), png_with_exif(png_of(image), exif)}) {
      const Example example = {{"image", file_tensor(file)}};
      for (uint64_t i = 0; i < 5; ++i) {
        CAPTURE(orientation, i);
        const at::Tensor two = run_pp("decode(exif=True)|inception_crop", example, i).at("image");
        const at::Tensor one =
            run_pp("decode_jpeg_and_inception_crop(exif=True)", example, i).at("image");
        CHECK(same_bits(one, two));
        const at::Tensor ignored = run_pp("decode_jpeg_and_inception_crop", example, i).at("image");
        const at::Tensor stored = run_pp("decode|inception_crop", example, i).at("image");
        CHECK(same_bits(ignored, stored));
      }
    }
  }
}

}  // namespace bv::test
