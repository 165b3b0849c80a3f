// JPEG and PNG: compared with golden arrays of the reference, and damaged. WebP: webp_test.cc.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "lib/ckpt/formats/npz.h"
#include "lib/input/image/decode.h"
#include "lib/input/image/jpeg.h"
#include "lib/input/image/jpeg_codec.h"
#include "lib/input/image/png.h"
#include "lib/util/rng.h"
#include "test/support/error.h"
#include "test/support/folder.h"
#include "test/support/golden.h"
#include "test/support/image_files.h"

namespace bv::test {
namespace {

int64_t most_apart(const at::Tensor& a, const at::Tensor& b) {
  REQUIRE(a.sizes() == b.sizes());
  return (a.to(at::kInt) - b.to(at::kInt)).abs().max().item<int64_t>();
}
// Returns smooth waves with some noise, (h, w, c).
at::Tensor wave_image(int64_t height, int64_t width, int64_t channels) {
  at::Tensor image = at::empty({height, width, channels}, at::kByte);
  Rng rng(7, Purpose::synthetic, 0);
  uint8_t* out = image.mutable_data_ptr<uint8_t>();
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      for (int64_t c = 0; c < channels; ++c) {
        const double wave =
            std::sin(0.11 * static_cast<double>(y) + 0.07 * static_cast<double>((c + 1) * x));
        *out++ = static_cast<uint8_t>(128 + 90 * wave + rng.uniform(-20, 20));
      }
    }
  }
  return image;
}

// Returns the JPEG file of an RGB image. Each chroma sample covers h x v pixels. only_dc: the file
// is progressive and has no other coefficients.
std::string chroma_jpeg(const at::Tensor& image, int h, int v, bool only_dc) {
  jpeg_compress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* data = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &data, &size);
  info.image_height = image.size(0);
  info.image_width = image.size(1);
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 80, TRUE);
  info.comp_info[0].h_samp_factor = h;
  info.comp_info[0].v_samp_factor = v;
  const jpeg_scan_info dc = {3, {0, 1, 2}, 0, 0, 0, 0};
  if (only_dc) {
    info.scan_info = &dc;
    info.num_scans = 1;
  }
  jpeg_start_compress(&info, TRUE);
  for (int64_t y = 0; y < image.size(0); ++y) {
    JSAMPROW row = const_cast<uint8_t*>(image[y].const_data_ptr<uint8_t>());
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  std::string file(reinterpret_cast<const char*>(data), size);
  std::free(data);
  return file;
}

at::Tensor pixels(const std::vector<int64_t>& values, at::IntArrayRef shape) {
  return at::tensor(values, at::kLong).to(at::kByte).reshape(shape);
}

}  // namespace

TEST_CASE("JPEG decoding equals the reference's, in the fast and the precise form", "[image]") {
  const std::string folder = golden_file("pp");
  if (folder.empty()) return;
  for (const std::string name : {"img0", "img1", "img2"}) {
    INFO(name);
    const std::string file = read_text(folder + "/" + name + ".jpg");
    const NamedTensors golden = read_npz(folder + "/" + name + ".npz", "decode");
    CHECK(most_apart(decode_image(bytes_of(file), 3, false), golden.at("")) == 0);
    if (golden.count("_precise")) {
      CHECK(most_apart(decode_image(bytes_of(file), 3, true), golden.at("_precise")) == 0);
    }
    const at::Tensor image = decode_jpeg(bytes_of(file), 0, true);
    const JpegSize size = jpeg_size(bytes_of(file));
    CHECK(image.sizes() == at::IntArrayRef({size.height, size.width, size.channels}));
    CHECK(size.channels == (name == "img2" ? 1 : 3));
  }
  const NamedTensors golden = read_npz(folder + "/rgba.npz", "decode");
  CHECK(decode_image(bytes_of(read_text(folder + "/rgba.png")), 3, false).equal(golden.at("")));
}

TEST_CASE("a colour JPEG decoded to grey is its luma; a grey one decoded to colour is replicated",
          "[image]") {
  const at::Tensor image = wave_image(40, 56, 3);
  const std::string color = text_of(encode_jpeg(image, 95));
  const at::Tensor grey = decode_jpeg(bytes_of(color), 1, true);
  CHECK(grey.sizes() == at::IntArrayRef({40, 56, 1}));
  const at::Tensor weights = at::tensor({0.299, 0.587, 0.114}, at::kFloat);
  const at::Tensor luma = (image.to(at::kFloat) * weights).sum(2, true);
  CHECK((grey.to(at::kFloat) - luma).abs().mean().item<double>() < 4);
  const std::string flat = text_of(encode_jpeg(wave_image(9, 13, 1), 95));
  const at::Tensor replicated = decode_jpeg(bytes_of(flat), 3, true);
  CHECK(replicated.equal(decode_jpeg(bytes_of(flat), 1, true).expand({9, 13, 3})));
}

TEST_CASE("CMYK JPEGs are converted as TensorFlow does, and precisely as PIL does", "[image]") {
  // libjpeg writes a flat CMYK picture with the Adobe marker. The inks are inverted, so that
  // red = k * c / 255.
  jpeg_compress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* data = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &data, &size);
  info.image_width = info.image_height = 16;
  info.input_components = 4;
  info.in_color_space = JCS_CMYK;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 100, TRUE);
  jpeg_start_compress(&info, TRUE);
  std::vector<uint8_t> row;
  for (int i = 0; i < 16; ++i) row.insert(row.end(), {200, 100, 50, 128});
  for (int i = 0; i < 16; ++i) {
    JSAMPROW line = row.data();
    jpeg_write_scanlines(&info, &line, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  const at::Tensor rgb = decode_jpeg({data, size}, 3, true);
  CHECK(rgb[3][5].equal(at::tensor({200 * 128 / 255, 100 * 128 / 255, 50 * 128 / 255}, at::kByte)));
  CHECK(decode_jpeg({data, size}, 0, true).equal(rgb));
  CHECK(decode_jpeg({data, size}, 1, true)[0][0].item<int64_t>() == 62);  // 0.299, 0.587, 0.114
  CHECK(decode_jpeg_crop({data, size}, {2, 3, 4, 5}, 3, true)
            .equal(rgb.slice(0, 2, 6).slice(1, 3, 8)));
  // Without the marker, whose segment has 16 bytes, PIL takes the inks as inverted all the same.
  std::string file(reinterpret_cast<const char*>(data), size);
  std::free(data);
  const size_t marker = file.find("\xFF\xEE");
  REQUIRE(marker != std::string::npos);
  REQUIRE(file.substr(marker + 4, 5) == "Adobe");
  file.erase(marker, 16);
  CHECK(decode_jpeg(bytes_of(file), 3, true).equal(rgb));
  const at::Tensor plain = decode_jpeg(bytes_of(file), 3, false)[3][5];
  CHECK((plain.to(at::kInt) - at::tensor({55 * 127 / 255, 155 * 127 / 255, 205 * 127 / 255}))
            .abs()
            .max()
            .item<int64_t>() <= 2);
}

TEST_CASE("a decoded window is a crop of the decoded image", "[image]") {
  std::vector<std::string> files = {text_of(encode_jpeg(wave_image(64, 64, 1), 80))};
  for (const auto& [h, v] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}}) {
    // libjpeg estimates what a progressive file lacks from the blocks around.
    for (const bool only_dc : {false, true})
      files.push_back(chroma_jpeg(wave_image(97, 131, 3), h, v, only_dc));
  }
  for (const char* name : {"golden/pp/img0.jpg", "golden/pp/img1.jpg", "golden/pp/img2.jpg"}) {
    if (const std::string file = shared_file(name); !file.empty()) files.push_back(read_text(file));
  }
  Rng rng(3, Purpose::synthetic, 0);
  for (const std::string& file : files) {
    for (const bool precise : {false, true}) {
      const at::Tensor full = decode_jpeg(bytes_of(file), 3, precise);
      for (int i = 0; i < 25; ++i) {
        Window window;
        window.height = 1 + rng.below(full.size(0));
        window.width = 1 + rng.below(full.size(1));
        window.y = rng.below(full.size(0) - window.height + 1);
        window.x = rng.below(full.size(1) - window.width + 1);
        INFO(window.y << " " << window.x << " " << window.height << " " << window.width);
        const at::Tensor crop = decode_jpeg_crop(bytes_of(file), window, 3, precise);
        CHECK(crop.equal(full.slice(0, window.y, window.y + window.height)
                             .slice(1, window.x, window.x + window.width)));
      }
    }
  }
}

TEST_CASE("PNG of every kind", "[image]") {
  const auto decode = [](const std::string& file, int channels) {
    return decode_image(bytes_of(file), channels, false);
  };
  const std::string grey = encode_png({0, 128, 255, 7}, 2, 2, SPNG_COLOR_TYPE_GRAYSCALE, 8);
  CHECK(decode(grey, 1).equal(pixels({0, 128, 255, 7}, {2, 2, 1})));
  CHECK(decode(grey, 0).equal(decode(grey, 1)));
  CHECK(decode(grey, 3).equal(decode(grey, 1).expand({2, 2, 3})));
  // 1 bit: 1010 0000.
  const std::string bits = encode_png({0xA0}, 1, 3, SPNG_COLOR_TYPE_GRAYSCALE, 1);
  CHECK(decode(bits, 1).equal(pixels({255, 0, 255}, {1, 3, 1})));
  // The upper 8 of 16 bits are kept.
  const std::string deep =
      encode_png({0x12, 0xFF, 0xFE, 0x01}, 1, 2, SPNG_COLOR_TYPE_GRAYSCALE, 16);
  CHECK(decode(deep, 1).equal(pixels({0x12, 0xFE}, {1, 2, 1})));
  const std::string deep_rgba =
      encode_png({1, 99, 2, 99, 3, 99, 0, 0}, 1, 1, SPNG_COLOR_TYPE_TRUECOLOR_ALPHA, 16);
  CHECK(decode(deep_rgba, 3).equal(pixels({1, 2, 3}, {1, 1, 3})));
  // Alpha is dropped, not blended.
  const std::string grey_alpha =
      encode_png({50, 0, 60, 128}, 1, 2, SPNG_COLOR_TYPE_GRAYSCALE_ALPHA, 8);
  CHECK(decode(grey_alpha, 1).equal(pixels({50, 60}, {1, 2, 1})));
  CHECK(decode(grey_alpha, 3)[0][1].equal(pixels({60, 60, 60}, {3})));
  const std::string rgb = encode_png({10, 20, 30, 255, 0, 0}, 1, 2, SPNG_COLOR_TYPE_TRUECOLOR, 8);
  CHECK(decode(rgb, 0).equal(pixels({10, 20, 30, 255, 0, 0}, {1, 2, 3})));
  CHECK(decode(rgb, 1).equal(pixels({18, 76}, {1, 2, 1})));  // 0.299 R + 0.587 G + 0.114 B
  spng_plte palette{};
  palette.n_entries = 2;
  palette.entries[0] = {1, 2, 3, 0};
  palette.entries[1] = {4, 5, 6, 0};
  const std::string indexed = encode_png({1, 0}, 1, 2, SPNG_COLOR_TYPE_INDEXED, 8, &palette);
  CHECK(decode(indexed, 3).equal(pixels({4, 5, 6, 1, 2, 3}, {1, 2, 3})));
}

TEST_CASE("a file that is not an image is refused by name", "[image]") {
  const auto problem = [](const std::string& content) {
    return error_of([&] { decode_image(bytes_of(content), 3, false); }, Exit::data);
  };
  CHECK(problem("") == "the file is empty");
  CHECK(problem("GIF89a") == "GIF images are not supported: convert it to JPEG, PNG or WebP");
  CHECK(problem("BM......") == "BMP images are not supported: convert it to JPEG, PNG or WebP");
  CHECK(problem(std::string("II*\0", 4)) ==
        "TIFF images are not supported: convert it to JPEG, PNG or WebP");
  for (const auto& [brand, format] :
       {std::pair("heic", "HEIC"), std::pair("mif1", "HEIF"), std::pair("avif", "AVIF")}) {
    CHECK(problem(std::string("\0\0\0\x18", 4) + "ftyp" + brand) ==
          fmt::format("{} images are not supported: convert it to JPEG, PNG or WebP", format));
  }
  CHECK(problem(std::string("\0\0\0\x18", 4) + "ftypisom") ==
        "not a JPEG, PNG or WebP image: it begins with 00 00 00 18");
  CHECK(problem("\x01\x02\x03") == "not a JPEG, PNG or WebP image: it begins with 01 02 03");
  // A row of a jsonl file whose image is not opened, or the target of a link as a file.
  CHECK(problem("BMW/grün 1.PNG") ==
        "not an image, but the string 'BMW/grün 1.PNG': for jsonl data, 'fopen_keys: [image]' "
        "reads the files that the rows name");
  CHECK(problem("no image") == "not a JPEG, PNG or WebP image: it begins with 6E 6F 20 69");
  CHECK(problem("a\n.png") == "not a JPEG, PNG or WebP image: it begins with 61 0A 2E 70");
  CHECK(problem("<html>") ==
        "this is an HTML page, probably an error message of a web server: download it again");
  CHECK_THAT(problem("version https://git-lfs.github.com/spec/v1\n"),
             Catch::Contains("git-LFS pointer"));

  const std::string good = text_of(encode_jpeg(wave_image(64, 64, 3), 90));
  CHECK(problem(good.substr(0, good.size() / 2)) ==
        fmt::format("truncated JPEG at byte {}", good.size() / 2));
  CHECK(problem(good.substr(0, 100)) == "truncated JPEG at byte 100");
  CHECK(problem(std::string("\xFF\xD8\xFF\xD9", 4)) ==
        "corrupt JPEG at byte 4: JPEG datastream contains no image");
  // Sizes in the header that are too large are rejected before memory is allocated.
  std::string huge = good;
  const size_t frame = huge.find("\xFF\xC0");
  for (int i = 5; i < 9; ++i) huge[frame + i] = static_cast<char>(i % 2 ? 0xF0 : 0);
  CHECK(problem(huge) ==
        "image of 61440 x 61440 pixels: at most 65500 a side and 268435456 in total");
  const std::string png = encode_png({0, 1, 2, 3}, 2, 2, SPNG_COLOR_TYPE_GRAYSCALE, 8);
  CHECK(problem(png.substr(0, 40)) == "broken PNG: end of stream");
  std::string flipped = png;
  flipped[45] ^= 1;
  CHECK_THAT(problem(flipped), Catch::StartsWith("broken PNG: "));
}

TEST_CASE("harmless oddities of JPEG files are tolerated", "[image]") {
  const std::string good = text_of(encode_jpeg(wave_image(32, 32, 3), 90));
  const at::Tensor image = decode_jpeg(bytes_of(good), 3, true);
  CHECK(decode_jpeg(bytes_of(good + std::string(5000, 'x')), 3, true).equal(image));
  // "extraneous bytes before marker": ImageNet has some.
  const size_t quantization = good.find("\xFF\xDB");
  const std::string odd = good.substr(0, quantization) + "abc" + good.substr(quantization);
  CHECK(decode_jpeg(bytes_of(odd), 3, true).equal(image));
}

TEST_CASE("flipped bytes of images give errors, and nothing worse", "[image]") {
  std::vector<uint8_t> raw;
  for (int i = 0; i < 16 * 16 * 3; ++i) raw.push_back(static_cast<uint8_t>(i * i));
  const std::vector<std::string> files = {text_of(encode_jpeg(wave_image(24, 24, 3), 70)),
                                          encode_png(raw, 16, 16, SPNG_COLOR_TYPE_TRUECOLOR, 8),
                                          webp_of(wave_image(24, 24, 3), true),
                                          webp_of(wave_image(24, 24, 3), false)};
  for (const std::string& good : files) {
    Rng rng(9, Purpose::synthetic, good.size());
    const TempFolder temp;
    int refused = 0;
    for (int i = 0; i < 3000; ++i) {
      std::string bad = good;
      const int64_t flips = 1 + rng.below(3);
      for (int64_t k = 0; k < flips; ++k) {
        bad[rng.below(static_cast<int64_t>(bad.size()))] = static_cast<char>(rng.bits());
      }
      if (i % 5 == 0) bad.resize(rng.below(static_cast<int64_t>(bad.size())));
      try {
        const at::Tensor image = decode_image(bytes_of(bad), 3, i % 2);
        CHECK(image.numel() > 0);
        if (image_format(bytes_of(bad)) == "JPEG") {
          decode_jpeg_crop(bytes_of(bad), {0, 0, (image.size(0) + 1) / 2, image.size(1)}, 1, false);
        }
      } catch (const Error& error) {
        CHECK(error.code() == Exit::data);
        ++refused;
      }
    }
    CHECK(refused > 300);
  }
}

}  // namespace bv::test
