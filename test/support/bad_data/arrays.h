// Broken IDX, CIFAR and npz files.
#pragma once

#include <libdeflate.h>

#include "lib/ckpt/formats/npy.h"
#include "test/support/bad_data/bad_data.h"

namespace bv::test {

// Returns `text` compressed as a gzip file or, if `raw`, as deflate data alone.
inline std::string deflated(const std::string& text, bool raw = false) {
  libdeflate_compressor* compressor = libdeflate_alloc_compressor(6);
  std::string out(libdeflate_gzip_compress_bound(compressor, text.size()), '\0');
  out.resize((raw ? libdeflate_deflate_compress : libdeflate_gzip_compress)(
      compressor, text.data(), text.size(), out.data(), out.size()));
  libdeflate_free_compressor(compressor);
  return out;
}

class IdxTable {
 public:
  BadDataTable make() {
    images();
    packed();
    labels();
    others();
    return std::move(table_);
  }

  GoodData good() const { return {kSection, good_, 4}; }

 private:
  static inline const std::string kSection = "name: idx\ndata_dir: DIR\n";
  static inline const std::string kImages = "train-images-idx3-ubyte";
  static inline const std::string kLabels = "train-labels-idx1-ubyte";

  void add(const std::string& name, const std::string& file, const std::string& content,
           const std::string& text) {
    table_.push_back({"idx: " + name, kSection, changed(good_, file, content), Exit::usage, text});
  }
  void add_images(const std::string& name, const std::string& content, const std::string& text) {
    add(name, kImages, content, kImages + text);
  }

  void images() {
    const std::string good = good_.at(kImages);
    add_images("an empty file", "", ": error: the file is empty");
    add_images("a file cut in its magic number", good.substr(0, 7),
               ": error: truncated: no room for an IDX header in 7 bytes");
    add_images("a file cut in its header", good.substr(0, 12),
               ": error: truncated: the IDX header has 16 bytes, the file 12");
    add_images("a file cut behind its header", good.substr(0, 16),
               ": error: truncated: header says 4 x 2 x 2 = 16 bytes, file has 0");
    add_images("a file without its last byte", good.substr(0, good.size() - 1),
               ": error: truncated: header says 4 x 2 x 2 = 16 bytes, file has 15");
    add_images("a file with a byte too many", good + "x",
               ": error: too long: header says 4 x 2 x 2 = 16 bytes, file has 17");
    add_images("a git-LFS pointer", kLfsPointer, ": error: " + kLfsText);
    add_images("an HTML page", kHtmlPage, ": error: " + kHtmlText);
    add_images("floating-point numbers", patched(good, 2, "\x0D"),
               " @ offset 0: error: bad IDX magic 0x00000d03, expected 0x00000803 (images)");
    add_images("a rank of 200", patched(good, 3, "\xC8"),
               " @ offset 0: error: bad IDX magic 0x000008c8, expected 0x00000803 (images)");
    add_images("a dimension of 0", patched(good, 8, big(0, 4)),
               " @ offset 8: error: a dimension is 0");
    add_images("the largest dimensions", patched(good, 4, std::string(12, '\xFF')),
               ": error: truncated: header says 4294967295 x 4294967295 x 4294967295 = 7.92e+28 "
               "bytes, file has 16");
    add_images("dimensions whose product is 2^64 and as many bytes more",
               patched(good, 4, big(1U << 31, 4) + big(1U << 31, 4) + big(4, 4)),
               ": error: truncated: header says 2147483648 x 2147483648 x 4 = 1.84e+19 bytes, file "
               "has 16");
  }

  void packed() {
    const std::string name = kImages + ".gz", good = deflated(good_.at(kImages));
    const auto add_packed = [&](const std::string& what, const std::string& content,
                                const std::string& text) {
      table_.push_back({"idx: " + what, kSection, changed(without(good_, kImages), name, content),
                        Exit::usage, name + text});
    };
    const auto damaged = [](const std::string& content) {
      return fmt::format(": error: truncated or damaged gzip data (file is {} bytes)",
                         content.size());
    };
    const std::string head = good.substr(0, 10), cut = good.substr(0, good.size() - 1),
                      lies = patched(good, good.size() - 4, little(15, 4)),
                      huge = patched(good, good.size() - 4, little(0xFFFFFFFF, 4)),
                      crc = flipped(good, good.size() - 8), two = good + good;
    add_packed("gzip data cut behind their header", head, damaged(head));
    add_packed("gzip data without their last byte", cut, damaged(cut));
    add_packed("gzip data that claim another size", lies, damaged(lies));
    add_packed("gzip data of few bytes that claim 4 GiB", huge, damaged(huge));
    add_packed("gzip data with a wrong checksum", crc, damaged(crc));
    add_packed("gzip data in two parts", two, damaged(two));
    add_packed("gzip data of another file", deflated("no IDX file"),
               " @ offset 0: error: bad IDX magic 0x6e6f2049, expected 0x00000803 (images)");
  }

  void labels() {
    // A label takes 8 bytes in memory.
    const std::string many =
        deflated(big(0x801, 4) + big(40 << 20, 4) + std::string(40 << 20, '\0'));
    table_.push_back({"idx: few bytes that would become 42 million labels", kSection,
                      changed(without(good_, kLabels), kLabels + ".gz", many), Exit::usage,
                      fmt::format("{}.gz: error: its {:.1f} KiB would unpack to 320.0 MiB: a gzip "
                                  "bomb, or damaged",
                                  kLabels, static_cast<double>(many.size()) / 1024)});
  }

  void others() {
    const std::string good = good_.at(kLabels);
    add("three labels for four images", kLabels, patched(good, 4, big(3, 4)).substr(0, 11),
        kLabels + ": error: 3 labels for the 4 images of " + kImages);
    add("images in place of labels", kLabels, good_.at(kImages),
        kLabels + " @ offset 0: error: bad IDX magic 0x00000803, expected 0x00000801 (labels)");
    table_.push_back({"idx: no labels", kSection, without(good_, kLabels), Exit::usage,
                      "t.yaml:2:11: error: no labels for '" + kImages + "' in 'DIR': expected " +
                          kLabels + "[.gz]"});
    table_.push_back({"idx: no files",
                      kSection,
                      {{"readme.txt", "x"}},
                      Exit::usage,
                      "t.yaml:2:11: error: no IDX files in 'DIR'"});
    table_.push_back({"idx: a label without a name", kSection + "class_names: [a, b, c]\n",
                      changed(good_, kLabels, patched(good, 10, "\3")), Exit::usage,
                      kLabels + ": error: label 3 in row 2, but class_names has 3 names"});
  }

  const Files good_ = {
      {kImages, big(0x803, 4) + big(4, 4) + big(2, 4) + big(2, 4) + std::string(16, 'x')},
      {kLabels, big(0x801, 4) + big(4, 4) + std::string("\0\1\2\1", 4)}};
  BadDataTable table_;
};

class CifarTable {
 public:
  BadDataTable make() {
    const std::string train = good_.at("train.bin");
    add("an empty file", "", "train.bin: error: the file is empty");
    add("a file without its last byte", train.substr(0, 6147),
        "train.bin: error: 6147 bytes is not a whole number of 3074-byte CIFAR records");
    add("a file with a byte too many", train + "x",
        "train.bin: error: 6149 bytes is not a whole number of 3074-byte CIFAR records");
    add("records of CIFAR-10", std::string(3073 * 2, '\1'),
        "train.bin: error: 6146 bytes is not a whole number of 3074-byte CIFAR records");
    add("a label of 100", patched(train, 3075, "\x64"),
        "train.bin @ offset 3075: error: label 100 in CIFAR-100 (is this the other CIFAR?)");
    add("a git-LFS pointer", kLfsPointer, "train.bin: error: " + kLfsText);
    add("an HTML page", kHtmlPage, "train.bin: error: " + kHtmlText);
    Files ten;
    for (int i = 1; i <= 5; ++i) ten[fmt::format("data_batch_{}.bin", i)] = std::string(3073, '\1');
    add_files("no fourth batch", without(ten, "data_batch_4.bin"),
              "data_batch_4.bin: error: no such file");
    add_files(
        "a label of 10", changed(ten, "data_batch_3.bin", std::string(3073, '\n')),
        "data_batch_3.bin @ offset 0: error: label 10 in CIFAR-10 (is this the other CIFAR?)");
    add_files("too few class names", changed(ten, "batches.meta.txt", "cat\ndog\n"),
              "batches.meta.txt: error: 2 class names, expected 10");
    add_files("class names of 64 KiB and more",
              changed(ten, "batches.meta.txt", std::string(65537, 'x')),
              "batches.meta.txt: error: larger than 65536 bytes");
    return std::move(table_);
  }

  GoodData good() const { return {kSection, good_, 2}; }

 private:
  static inline const std::string kSection = "name: cifar\ndata_dir: DIR\n";

  void add(const std::string& name, const std::string& train, const std::string& text) {
    add_files(name, changed(good_, "train.bin", train), text);
  }
  void add_files(const std::string& name, const Files& files, const std::string& text) {
    table_.push_back({"cifar: " + name, kSection, files, Exit::usage, text});
  }

  const Files good_ = {{"train.bin", std::string(3074 * 2, '\1')},
                       {"test.bin", std::string(3074, '\1')}};
  BadDataTable table_;
};

// A member of a zip archive, with all its header fields.
struct ZipMember {
  std::string name, content;  // as it is stored
  uint16_t method = 0;        // 0 stored, 8 deflated
  uint64_t bytes = 0;         // unpacked
  uint32_t checksum = 0;      // of the unpacked content
  uint16_t flags = 0;
};

inline ZipMember zip_member(const std::string& name, const std::string& content,
                            bool packed = false) {
  return {name, packed ? deflated(content, /*raw=*/true) : content,
          static_cast<uint16_t>(packed ? 8 : 0), content.size(),
          libdeflate_crc32(0, content.data(), content.size())};
}

inline std::string zip_file(const std::vector<ZipMember>& members) {
  std::string local, directory;
  for (const ZipMember& member : members) {
    const std::string both = little(member.flags, 2) + little(member.method, 2) + little(0, 4) +
                             little(member.checksum, 4) + little(member.content.size(), 4) +
                             little(member.bytes, 4) + little(member.name.size(), 2) + little(0, 2);
    directory += "PK\1\2" + little(20, 2) + little(20, 2) + both + std::string(10, '\0') +
                 little(local.size(), 4) + member.name;
    local += "PK\3\4" + little(20, 2) + both + member.name + member.content;
  }
  return local + directory + "PK\5\6" + little(0, 4) + little(members.size(), 2) +
         little(members.size(), 2) + little(directory.size(), 4) + little(local.size(), 4) +
         little(0, 2);
}

class NpzTable {
 public:
  BadDataTable make() {
    whole_files();
    directories();
    contents();
    arrays();
    return std::move(table_);
  }

  GoodData good() const { return {kSection, {{"d.npz", good_}}, 4}; }

 private:
  static inline const std::string kSection = "name: npz\nfname: DIR/d.npz\n";
  static inline const std::string kImage = npy_header("|u1", {4, 2, 2, 1}) + std::string(16, '\1');
  static inline const std::string kLabel = npy_header("<i8", {4}) + std::string(32, '\0');

  void add(const std::string& name, const std::string& content, const std::string& text) {
    table_.push_back({"npz: " + name, kSection, {{"d.npz", content}}, Exit::usage, "d.npz" + text});
  }
  // Adds a row with another member in place of the array `label`.
  void add_member(const std::string& name, const ZipMember& member, const std::string& text) {
    add(name, zip_file({zip_member("image.npy", kImage), member}), text);
  }
  // The same with another content of the array `label`.
  void add_label(const std::string& name, const std::string& content, const std::string& text) {
    add_member(name, zip_member("label.npy", content),
               fmt::format(" @ offset {}: error: 'label', {}", label_at_ + 39, text));
  }

  void whole_files() {
    const auto no_end = [](size_t size) {
      return fmt::format(
          " @ offset {}: error: not a zip archive, or cut off: it has no end-of-directory record",
          size);
    };
    add("an empty file", "", ": error: the file is empty");
    add("a git-LFS pointer", kLfsPointer, ": error: " + kLfsText);
    add("an HTML page", kHtmlPage, ": error: " + kHtmlText);
    for (const size_t cut : {good_.size() - 1, good_.size() - 22, label_at_, size_t{30}, size_t{4}})
      add(fmt::format("an archive cut at byte {}", cut), good_.substr(0, cut), no_end(cut));
    add("an archive without its first byte", good_.substr(1),
        fmt::format(" @ offset {}: error: the directory claims to have", good_.size() - 23));
  }

  void directories() {
    const size_t end = good_.size() - 22;
    const std::string at_end = fmt::format(" @ offset {}: error: ", end);
    add("an archive of several parts", patched(good_, end + 4, little(1, 2)),
        at_end + "archives in several parts are not supported");
    add("an archive of 65534 entries", patched(good_, end + 8, little(65534, 2) + little(65534, 2)),
        fmt::format(" @ offset {}: error: 65534 entries do not fit in a directory of", directory_));
    add("an archive of one entry less", patched(good_, end + 8, little(1, 2) + little(1, 2)),
        fmt::format(" @ offset {}: error: the directory ends here, but should end at offset {}",
                    directory_ + 55, end));
    add("a directory that claims to be elsewhere", patched(good_, end + 16, little(7, 4)),
        at_end + "the directory claims to have");
    add("an archive without its zip64 locator", patched(good_, end + 16, little(0xFFFFFFFF, 4)),
        at_end + "the zip64 locator before the end record is missing");
    add("a local header elsewhere", patched(good_, directory_ + 42, little(3, 4)),
        " @ offset 3: error: no local header of 'image.npy' here");
    add("two headers that say different sizes", patched(good_, 22, little(5, 4)),
        " @ offset 0: error: the local header of 'image.npy' does not agree with the directory");
    ZipMember image = zip_member("image.npy", kImage), label = zip_member("label.npy", kLabel);
    image.flags = label.flags = 8;  // the sizes in the local headers do not count
    const uint64_t longer = image.bytes + 1;
    add("entries that overlap",
        patched(zip_file({image, label}), directory_ + 20, little(longer, 4) + little(longer, 4)),
        fmt::format(" @ offset {}: error: 'label.npy' overlaps 'image.npy'", label_at_));
    add("an entry twice", zip_file({zip_member("a.npy", kLabel), zip_member("a.npy", kLabel)}),
        fmt::format(" @ offset {}: error: 'a.npy' appears twice", 2 * (35 + kLabel.size()) + 51));
  }

  void contents() {
    const auto at_directory = [](const ZipMember& member, const std::string& text) {
      return fmt::format(" @ offset {}: error: {}",
                         39 + kImage.size() + 30 + member.name.size() + member.content.size() + 55,
                         text);
    };
    const auto add_header = [&](const std::string& name, const ZipMember& member,
                                const std::string& text) {
      add_member(name, member, at_directory(member, text));
    };
    ZipMember member = zip_member("../label.npy", kLabel);
    add_header("a name that leaves the folder", member, "invalid entry name '../label.npy'");
    member.name = "/label.npy";
    add_header("a name from the root", member, "invalid entry name '/label.npy'");
    member.name = "a\xFF.npy";
    add_header("a name that is not UTF-8", member, "an entry's name is not printable UTF-8");
    member = zip_member("label.npy", kLabel);
    member.flags = 1;
    add_header("an encrypted entry", member, "'label.npy' is encrypted");
    member.flags = 0;
    member.method = 14;
    add_header("a method that is not known", member,
               "'label.npy' is packed by method 14; known: 0 (stored), 8 (deflated)");
    member.method = 0;
    member.bytes = 9;
    add_header("a stored entry with two sizes", member, "'label.npy' is stored, but has sizes");
    member = zip_member("label.npy", kLabel, /*packed=*/true);
    member.bytes = 0xFFFFFFF0;
    add_header("an entry of few bytes that claims 4 GiB", member,
               "'label.npy' claims to grow from");
    ZipMember bomb = {"label.npy", std::string(400'000, '\0'), 8, 300'000'000};
    add_member("an entry that would unpack to 300 MB", bomb,
               ": error: its 390.8 KiB would unpack to 286.1 MiB: a zip bomb, or damaged");
    // In memory, a whole number takes 8 bytes and a 16-bit float of a label 4.
    const ZipMember many = zip_member(
        "label.npy", npy_header("|u1", {30 << 20}) + std::string(30 << 20, '\0'), /*packed=*/true);
    const ZipMember soft = zip_member(
        "labels.npy", npy_header("<f2", {5 << 20}) + std::string(10 << 20, '\0'), /*packed=*/true);
    add("few bytes that would become 37 million labels", zip_file({many, soft}),
        fmt::format(": error: its {:.1f} KiB would unpack to 260.0 MiB: a zip bomb, or damaged",
                    static_cast<double>(many.content.size() + soft.content.size()) / 1024));
    member = zip_member("label.npy", kLabel);
    ++member.checksum;
    add_member(
        "a wrong checksum", member,
        fmt::format(" @ offset {}: error: 'label.npy': damaged: its CRC differs", label_at_ + 39));
    member = zip_member("label.npy", kLabel, /*packed=*/true);
    member.content = member.content.substr(0, 8);
    add_member("packed data that are cut off", member,
               fmt::format(" @ offset {}: error: 'label.npy': damaged: it does not unpack",
                           label_at_ + 39));
    member = zip_member("label.npy", kLabel, /*packed=*/true);
    member.content += "more";
    add_member("packed data with more behind them", member,
               fmt::format(" @ offset {}: error: 'label.npy': damaged: bytes are left over",
                           label_at_ + 39));
    add_member(
        "an entry that is no array", zip_member("readme.txt", "x"),
        fmt::format(" @ offset {}: error: entry 'readme.txt' is not an npy array", label_at_));
  }

  void arrays() {
    const auto with = [](const std::string& dictionary, size_t bytes) {
      return std::string("\x93NUMPY\1\0", 8) + little(dictionary.size(), 2) + dictionary +
             std::string(bytes, '\0');
    };
    const auto numbers = [&](const std::string& shape, size_t bytes) {
      return with("{'descr': '<i8', 'fortran_order': False, 'shape': " + shape + "}", bytes);
    };
    add_label("an empty array file", "", "byte 0: not an npy array");
    add_label("an array cut in its header", kLabel.substr(0, 40), "byte 10: the npy header is cut");
    add_label("an array of version 9", patched(kLabel, 6, "\x09"), "byte 6: npy version 9.0");
    add_label("an array without its last byte", kLabel.substr(0, kLabel.size() - 1),
              "byte 10: shape (4) and dtype take 32 bytes, but there are 31");
    add_label("a pickled object",
              with("{'descr': '|O', 'fortran_order': False, 'shape': (4,)}", 32),
              "byte 20: dtype '|O' is not supported: pickled Python objects are never loaded");
    add_label("a record array",
              with("{'descr': [('a', '<i8')], 'fortran_order': False, 'shape': (4,)}", 32),
              "byte 20: record arrays are not supported");
    add_label("a header without a shape", with("{'descr': '<i8', 'fortran_order': False}", 32),
              "byte 50: no 'shape'");
    add_label("a shape of 2^64", numbers("(4294967296, 4294967296)", 32),
              "byte 10: the shape is too large");
    add_label("a dimension of 2^63", numbers("(9223372036854775808,)", 32),
              "byte 61: integer of 2^63 or more");
    add_label("a negative dimension", numbers("(-4,)", 32),
              "byte 61: expected a non-negative integer, got '-'");
    std::string deep = "(1";
    for (int i = 0; i < 40; ++i) deep += ", 1";
    add_label("an array of 41 dimensions", numbers(deep + ")", 8),
              "byte 10: the shape is too large");
    add("images and labels of different numbers",
        zip_file({zip_member("image.npy", kImage),
                  zip_member("label.npy", npy_header("<i8", {3}) + std::string(24, '\0'))}),
        ": error: array 'image' has 4 rows, but 'label' has 3");
    add("a label that is not finite",
        zip_file({zip_member("image.npy", kImage),
                  zip_member("label.npy", npy_header("<f4", {4}) + std::string(8, '\0') +
                                              std::string("\0\0\xC0\x7F\0\0\0\0", 8))}),
        ": error: array 'label' is nan in row 2");
    add("a bool of 2",
        zip_file({zip_member("image.npy", kImage),
                  zip_member("mask.npy", npy_header("|b1", {4}) + std::string("\0\1\2\0", 4))}),
        fmt::format(" @ offset {}: error: 'mask', byte 130: a bool that is neither 0 nor 1",
                    label_at_ + 38));
  }

  // Where the entry `label` and the directory begin.
  const size_t label_at_ = 39 + kImage.size();
  const size_t directory_ = label_at_ + 39 + kLabel.size();
  const std::string good_ =
      zip_file({zip_member("image.npy", kImage), zip_member("label.npy", kLabel)});
  BadDataTable table_;
};

}  // namespace bv::test
