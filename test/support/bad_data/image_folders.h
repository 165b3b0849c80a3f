// Broken image folders.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <libdeflate.h>
#include <sys/stat.h>

#include <filesystem>

#include "test/support/bad_data/bad_data.h"

namespace bv::test {

inline const std::string& good_jpeg() {
  static const std::string file = flat_jpeg(50);
  return file;
}
inline const std::string& good_png() {
  static const std::string file =
      encode_png(std::vector<uint8_t>(192, 100), 8, 8, SPNG_COLOR_TYPE_TRUECOLOR, 8);
  return file;
}
inline const std::string& good_webp() {
  static const std::string file = webp_of(at::full({8, 8, 3}, 150, at::kByte), /*lossless=*/true);
  return file;
}

// Returns a PNG file with other bytes in its header, and the correct checksum for them.
inline std::string png_with_header(size_t at, const std::string& bytes) {
  std::string file = patched(good_png(), at, bytes);
  const uint32_t checksum = libdeflate_crc32(0, file.data() + 12, 17);
  return file.replace(29, 4, big(checksum, 4));
}
// Returns a JPEG file whose frame header contains another size.
inline std::string jpeg_of_size(uint16_t height, uint16_t width) {
  const size_t frame = good_jpeg().find("\xFF\xC0");
  return patched(good_jpeg(), frame + 5, big(height, 2) + big(width, 2));
}
// Returns a lossless WebP file whose header contains another size.
inline std::string webp_of_size(uint32_t height, uint32_t width) {
  return patched(good_webp(), 21, little((width - 1) | (height - 1) << 14, 4));
}

class ImageFolderTable {
 public:
  BadDataTable make() {
    wrong_kinds();
    jpeg_heads();
    jpeg_pixels();
    png_files();
    webp_files();
    folders();
    return std::move(table_);
  }

  GoodData good() const { return {kSection, good_, 4}; }

 private:
  static inline const std::string kSection = "name: image_folder\ndata_dir: DIR\n";

  // Adds a row in which the file cat/1.jpg has another content. `text`: what follows its name.
  void add(const std::string& name, const std::string& content, const std::string& text,
           Exit code = Exit::usage) {
    const std::string where = code == Exit::usage ? "cat/1.jpg: error: " : "cat/1.jpg: ";
    table_.push_back({"image_folder: " + name, kSection, changed(good_, "cat/1.jpg", content), code,
                      where + text});
  }
  // Adds a row in which the folder holds something that is not a file with content.
  void add_special(const std::string& name, const std::string& text,
                   std::function<void(const std::string& folder)> also) {
    table_.push_back(
        {"image_folder: " + name, kSection, good_, Exit::usage, text, std::move(also)});
  }

  void wrong_kinds() {
    add("an empty file", "", "the file is empty");
    add("a git-LFS pointer", kLfsPointer,
        "this is a git-LFS pointer, not the image itself: run 'git lfs pull' where it came from");
    add("an HTML page", kHtmlPage, kHtmlText);
    add("one byte", "\xFF", "not a JPEG, PNG or WebP image: it begins with FF");
    add("a GIF", "GIF89a" + std::string(20, '\1'),
        "GIF images are not supported: convert it to JPEG, PNG or WebP");
    add("a BMP", "BM" + std::string(60, '\0'),
        "BMP images are not supported: convert it to JPEG, PNG or WebP");
    add("a TIFF", std::string("II*\0", 4) + std::string(60, '\0'),
        "TIFF images are not supported: convert it to JPEG, PNG or WebP");
    add("zeros", std::string(4096, '\0'),
        "not a JPEG, PNG or WebP image: it begins with 00 00 00 00");
  }

  void jpeg_heads() {
    const std::string& good = good_jpeg();
    add("a JPEG cut behind its start marker", good.substr(0, 3),
        "not a complete JPEG: no frame header (file is 3 bytes)");
    add("a JPEG cut in its first segment", good.substr(0, 15),
        "not a complete JPEG: no frame header (file is 15 bytes)");
    const size_t frame = good.find("\xFF\xC0");
    add("a JPEG cut in its frame header", good.substr(0, frame + 6),
        fmt::format("not a complete JPEG: no frame header (file is {} bytes)", frame + 6));
    add("a JPEG cut behind its frame header", good.substr(0, frame + 19),
        fmt::format("not a complete JPEG: no end marker (file is {} bytes)", frame + 19));
    add("a JPEG without its last byte", good.substr(0, good.size() - 1),
        fmt::format("not a complete JPEG: no end marker (file is {} bytes)", good.size() - 1));
    add("a JPEG of text behind its first segment",
        "\xFF\xD8" + jpeg_segment(0, "ab") + std::string(60, 'x') + "\xFF\xD9",
        "not a valid JPEG: no marker at byte 8");
    add("a JPEG with a segment of 1 byte", patched(good, 4, big(1, 2)),
        "not a valid JPEG: bad segment at byte 2");
    add("a JPEG whose pixels come first", "\xFF\xD8\xFF\xDA" + std::string(60, '\0') + "\xFF\xD9",
        "not a valid JPEG: no frame header before byte 2");
    add("a JPEG of no height", jpeg_of_size(0, 8),
        "not a valid JPEG: image of 0 x 8 pixels: at most 65500 a side and 268435456 in total");
    add("a JPEG of 65535 x 65535 pixels", jpeg_of_size(65535, 65535),
        "not a valid JPEG: image of 65535 x 65535 pixels: at most 65500 a side");
    add("a JPEG of 20000 x 20000 pixels", jpeg_of_size(20000, 20000),
        "not a valid JPEG: image of 20000 x 20000 pixels: at most 65500 a side and 268435456");
  }

  void jpeg_pixels() {
    const std::string& good = good_jpeg();
    const size_t scan = good.find("\xFF\xDA");
    // libjpeg skips the segment.
    add("a JPEG with a damaged marker", patched(good, 20, std::string(1, '\0')),
        "corrupt JPEG at byte ", Exit::data);
    add("a JPEG without pixels", good.substr(0, scan + 14) + "\xFF\xD9",
        fmt::format("truncated JPEG at byte {}", scan + 14), Exit::data);
    add("a JPEG of few bytes that claims 16000 x 16000 pixels", jpeg_of_size(16000, 16000),
        "truncated JPEG at byte ", Exit::data);
    const size_t table = good.find("\xFF\xC4");
    add("a JPEG with an impossible Huffman table",
        patched(good, table + 5, std::string(16, '\xFF')), "corrupt JPEG at byte ", Exit::data);
    const size_t frame = good.find("\xFF\xC0");
    add("a JPEG with 5 bits a sample", patched(good, frame + 4, "\5"), "corrupt JPEG at byte ",
        Exit::data);
    add("a JPEG with 200 components", patched(good, frame + 9, "\xC8"), "corrupt JPEG at byte ",
        Exit::data);
  }

  void png_files() {
    const std::string& good = good_png();
    const size_t pixels = good.find("IDAT"), end = good.find("IEND");
    add("a PNG cut behind its signature", good.substr(0, 8),
        "not a complete PNG: no header (file is 8 bytes)");
    add("a PNG cut in its header", good.substr(0, 32),
        "not a complete PNG: no header (file is 32 bytes)");
    add("a PNG cut in its pixels", good.substr(0, pixels + 6),
        fmt::format("not a complete PNG: no IEND chunk (file is {} bytes)", pixels + 6));
    add("a PNG cut before its end", good.substr(0, end - 4),
        fmt::format("not a complete PNG: no IEND chunk (file is {} bytes)", end - 4));
    add("a PNG without a header chunk", patched(good, 12, "JHDR"),
        "not a valid PNG: no IHDR chunk at byte 8");
    add("a PNG of no width", png_with_header(16, big(0, 4)),
        "not a valid PNG: image of 8 x 0 pixels: at most 65500 a side");
    add("a PNG of 2^31 pixels a side", png_with_header(16, big(1U << 31, 4) + big(1U << 31, 4)),
        "not a valid PNG: image of 2147483648 x 2147483648 pixels: at most 65500 a side");
    add("a PNG of few bytes that claims 16000 x 16000 pixels",
        png_with_header(16, big(16000, 4) + big(16000, 4)), "broken PNG: ", Exit::data);
    add("a PNG with a wrong checksum of its header", patched(good, 16, big(9, 4)),
        "broken PNG: ", Exit::data);
    add("a PNG with 3 bits a sample", png_with_header(24, "\3"), "broken PNG: ", Exit::data);
    add("a PNG with a wrong checksum of its pixels", flipped(good, pixels + 8),
        "broken PNG: ", Exit::data);
    add("a PNG without pixels", good.substr(0, pixels - 4) + good.substr(end - 4),
        "broken PNG: ", Exit::data);
    add("a PNG whose chunk of pixels has 2 GiB", patched(good, pixels - 4, big(0x7FFFFFFF, 4)),
        "broken PNG: ", Exit::data);
  }

  void webp_files() {
    const std::string& good = good_webp();
    const auto number = [](size_t value) { return fmt::format("{}", value); };
    add("a WebP cut behind its signature", good.substr(0, 12),
        "not a complete WebP: no header (file is 12 bytes)");
    add("a WebP without its last byte", good.substr(0, good.size() - 1),
        "not a complete WebP: " + number(good.size() - 1) + " bytes of " + number(good.size()));
    add("a WebP that claims 4 GiB", patched(good, 4, little(0xFFFFFFFF, 4)),
        "not a complete WebP: " + number(good.size()) + " bytes of 4294967303");
    add("a WebP of an unknown chunk", patched(good, 12, "VP9 "),
        "not a valid WebP: no VP8, VP8L or VP8X chunk at byte 12");
    add("a WebP without its image", patched(good, 20, std::string(1, '\0')),
        "not a valid WebP: no VP8L image at byte 20");
    add("a WebP of 2^24 pixels a side",
        webp_file(vp8x_chunk(0, 1 << 24, 1 << 24) + good.substr(12)),
        "not a valid WebP: image of 16777216 x 16777216 pixels: at most 65500 a side");
    add("an animated WebP", webp_file(vp8x_chunk(2, 8, 8) + good.substr(12)),
        "animated WebP images are not supported: save one frame of it");
    add("a WebP with damaged pixels", patched(good, 26, std::string(good.size() - 26, '\xFF')),
        "broken WebP: ", Exit::data);
  }

  void folders() {
    namespace fs = std::filesystem;
    add_special(
        "a link that names itself", "cat/9.jpg: error: Too many levels of symbolic links",
        [](const std::string& folder) { fs::create_symlink("9.jpg", folder + "/cat/9.jpg"); });
    add_special("a link to nothing", "cat/9.jpg: error: no such file",
                [](const std::string& folder) {
                  fs::create_symlink("/no/such.jpg", folder + "/cat/9.jpg");
                });
    add_special("a pipe", "cat/9.jpg: error: is a pipe, not a file",
                [](const std::string& folder) { ::mkfifo((folder + "/cat/9.jpg").c_str(), 0600); });
    add_special(
        "a link to a device", "cat/9.jpg: error: is a device, not a file",
        [](const std::string& folder) { fs::create_symlink("/dev/zero", folder + "/cat/9.jpg"); });
    add_special("a class without images", "eel: error: class 'eel' has no images",
                [](const std::string& folder) { fs::create_directories(folder + "/eel"); });
    add_special("a class that is a link to a loop", "eel: error: class 'eel' has no images",
                [](const std::string& folder) {
                  fs::create_directories(folder + "/eel");
                  fs::create_symlink("loop", folder + "/eel/loop");
                });
    table_.push_back({"image_folder: no class folders",
                      kSection,
                      {{"1.jpg", good_jpeg()}},
                      Exit::usage,
                      "t.yaml:2:11: error: no class folders in 'DIR': expected <class>/*.jpg or "
                      "<split>/<class>/*.jpg"});
    table_.push_back({"image_folder: no folder", "name: image_folder\ndata_dir: DIR/no\n", good_,
                      Exit::usage, "t.yaml:2:11: error: no such folder: 'no'"});
    table_.push_back({"image_folder: a file in place of the folder",
                      "name: image_folder\ndata_dir: DIR/cat/1.jpg\n", good_, Exit::usage,
                      "t.yaml:2:11: error: "});
    table_.push_back({"image_folder: a name that is not UTF-8", kSection,
                      changed(good_, "cat/\xC3\x28.jpg", ""), Exit::usage,
                      "cat/\\xc3(.jpg: error: the file is empty"});
    table_.push_back({"image_folder: a name with a line feed and an escape sequence", kSection,
                      changed(good_, "cat/a\n\x1B[2J.jpg", ""), Exit::usage,
                      "cat/a\\n\\x1b[2J.jpg: error: the file is empty"});
  }

  const Files good_ = {{"cat/1.jpg", good_jpeg()},
                       {"cat/2.jpg", good_jpeg()},
                       {"dog/1.png", good_png()},
                       {"dog/2.webp", good_webp()}};
  BadDataTable table_;
};

}  // namespace bv::test
