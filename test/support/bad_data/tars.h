// Broken tar files of webdataset.
#pragma once

#include <sys/stat.h>

#include "test/input/tar_writer.h"
#include "test/support/bad_data/image_folders.h"

namespace bv::test {

class TarTable {
 public:
  BadDataTable make() {
    wrong_kinds();
    ends();
    headers();
    names();
    samples();
    values();
    return std::move(table_);
  }

  GoodData good() const { return {kSection, {{"d.tar", good_}}, 1}; }

 private:
  static inline const std::string kSection = "name: webdataset\nurls: DIR/d.tar\n";

  void add(const std::string& name, const std::string& content, const std::string& text,
           Exit code = Exit::usage, const std::string& section = kSection) {
    table_.push_back({"webdataset: " + name, section, {{"d.tar", content}}, code, "d.tar" + text});
  }
  // Adds a row in which another sample follows a good one.
  void add_second(const std::string& name, const std::string& members, const std::string& text) {
    add(name, good_sample_ + members + kTarEnd,
        fmt::format(" @ offset {} (key b): error: {}", good_sample_.size(), text));
  }
  // The same, but the sample is the first one, which decides what the data set has.
  void add_first(const std::string& name, const std::string& members, const std::string& text) {
    add(name, members + kTarEnd, " @ offset 0 (key a): error: " + text);
  }

  void wrong_kinds() {
    add("an empty file", "", ": error: the file is empty");
    add("a git-LFS pointer", kLfsPointer, ": error: " + kLfsText);
    add("an HTML page", kHtmlPage, ": error: " + kHtmlText);
    add("a tar that is compressed", "\x1F\x8B\x08" + good_,
        ": error: is compressed with gzip, but examples are read from the middle of a file");
    add("a zip archive", "PK\3\4" + good_, ": error: is a zip archive, not a tar file");
    add("100 bytes", std::string(100, 'x'), ": error: is not a tar file: it has only 100 bytes");
    add("1,000 bytes", std::string(1000, 'x'),
        ": error: is not a tar file: it does not begin with a header");
    add("a tar of zeros", std::string(10240, '\0'),
        ": error: holds no samples: no member of the tar is called <key>.<extension>");
    table_.push_back({"webdataset: no file",
                      kSection,
                      {},
                      Exit::usage,
                      "t.yaml:2:7: error: no such file: 'd.tar'"});
    table_.push_back(
        {"webdataset: a pipe",
         kSection,
         {},
         Exit::usage,
         "d.tar: error: is a pipe, not a file",
         [](const std::string& folder) { ::mkfifo((folder + "/d.tar").c_str(), 0600); }});
    table_.push_back(
        {"webdataset: a file twice",
         "name: webdataset\nurls: [DIR/d.tar, DIR/e.tar]\n",
         {{"d.tar", good_}},
         Exit::usage,
         "e.tar: error: is listed twice",
         [](const std::string& folder) { ::symlink("d.tar", (folder + "/e.tar").c_str()); }});
  }

  void ends() {
    const size_t size = good_jpeg().size();
    const auto cut_off = [&](size_t left) {
      return fmt::format(
          " @ offset 0: error: 'a.jpg' has {} bytes, but the file ends after {} of "
          "them: it is cut off",
          size, left);
    };
    add("a tar cut in its first header", good_.substr(0, 511),
        ": error: is not a tar file: it has only 511 bytes");
    add("a tar cut behind its first header", good_.substr(0, 512), cut_off(0));
    add("a tar cut in its first member", good_.substr(0, 600), cut_off(88));
    const size_t second = 512 + tar_padded(good_jpeg()).size();
    add("a tar cut in its second header", good_.substr(0, second + 200),
        fmt::format(" @ offset {}: error: the file ends within a header, after 200 of 512 bytes: "
                    "it is cut off",
                    second));
    add("a tar cut in its second member", good_.substr(0, second + 512),
        fmt::format(" @ offset {}: error: 'a.cls' has 1 bytes, but the file ends after 0", second));
    add("two tars joined", good_ + good_,
        fmt::format(
            " @ offset {}: error: there is data after the end of the tar, perhaps a second tar",
            good_.size()));
  }

  void headers() {
    const auto add_header = [&](const std::string& name, const std::string& header,
                                const std::string& text) {
      add(name, good_sample_ + header + kTarEnd,
          fmt::format(" @ offset {}: error: {}", good_sample_.size(), text));
    };
    const std::string header = tar_header("b.jpg", 10);
    add_header("a flipped bit in a header", flipped(header, 100) + tar_padded("x"),
               "this is not the header of a member: its checksum is wrong");
    add_header("a size that is no number", with_checksum(patched(header, 124, "0000000000z")),
               "the size in this header is not a number");
    add_header("a size of 2^62", with_base256_size(header, uint64_t{1} << 62),
               "'b.jpg' has 4611686018427387904 bytes, but the file ends after 1024 of them");
    add_header("a size of 2^63 and more", with_base256_size(header, UINT64_MAX),
               "the size in this header is not a number");
    add_header("a long name of 2 GiB",
               tar_header("././@LongLink", uint64_t{2} << 30, 'L', TarFormat::gnu),
               "an extended header of 2147483648 bytes, more than 1048576");
    add_header("a long name that is cut off",
               tar_header("././@LongLink", 5000, 'L', TarFormat::gnu),
               "the file ends within an extended header, after 1024 of 5000 bytes: it is cut off");
    add_header("a pax header without its member", pax_header(pax_record("path", "b.jpg")),
               "the member of this extended header is missing");
    add_header("a pax record that claims 999 bytes", pax_header("999 path=b\n"),
               "a damaged pax header");
    add_header("a pax record without a length", pax_header("path=b.jpg\n"), "a damaged pax header");
    add_header("a pax size that is no number",
               pax_header(pax_record("size", "-1")) + tar_member("b.jpg", "x"),
               "a damaged pax header");
    add_header("a pax header that names all members",
               pax_header(pax_record("path", "b.jpg"), 'g') + tar_member("b.jpg", "x"),
               "a pax header that sets 'path' for all members is not supported");
    add_header("a file with holes", tar_header("b.jpg", 10, 'S', TarFormat::gnu) + tar_padded("x"),
               "a file with holes (GNU sparse format): make the tar without --sparse");
  }

  void names() {
    const std::string cls = tar_member("b.cls", "1");
    const std::string at = fmt::format(" @ offset {}: error: ", good_sample_.size());
    add("a link to /etc/passwd",
        good_sample_ + tar_header("b.jpg", 0, '2', TarFormat::ustar, "/etc/passwd") + cls + kTarEnd,
        at + "'b.jpg' is only a link to '/etc/passwd': make the tar with --dereference");
    const std::string name(5000, 'n');
    add("a name of 5,000 bytes", good_sample_ + gnu_long_member(name + ".jpg", "x") + kTarEnd,
        fmt::format(" @ offset {}: error: a name of 5004 bytes, more than 4096",
                    good_sample_.size() + 512 + tar_padded(name + ".jpg").size()));
    std::string many = good_sample_;
    for (int i = 0; i < 300; ++i) many += tar_member(fmt::format("b.{}.jpg", i), "");
    add("a sample of 300 members", many + kTarEnd,
        fmt::format(" @ offset {} (key b): error: this sample has more than 256 members",
                    good_sample_.size()));
    add("a name that leaves the folder",
        good_sample_ + tar_member("../../b.jpg", good_jpeg()) + kTarEnd,
        fmt::format(" @ offset {} (key ../../b): error: has no 'cls', only jpg",
                    good_sample_.size()));
    add("a name that is not UTF-8",
        good_sample_ + tar_member("\xFF\x1B.jpg", good_jpeg()) + kTarEnd,
        fmt::format(" @ offset {} (key \\xff\\x1b): error: has no 'cls', only jpg",
                    good_sample_.size()));
  }

  void samples() {
    const std::string jpg = tar_member("b.jpg", good_jpeg()), cls = tar_member("b.cls", "1");
    add_second("a sample without a label", jpg, "has no 'cls', only jpg");
    add_second("a sample without an image", cls, "has no image, only cls");
    add_second("a sample with two images", jpg + tar_member("b.png", good_png()) + cls,
               "has several images: choose one");
    add_second("a member twice", jpg + cls + cls, "has 'cls' twice, again @ offset");
    add_second("an empty image", tar_member("b.jpg", "") + cls, "'jpg': the file is empty");
    add_second("an image that is an HTML page", tar_member("b.jpg", kHtmlPage) + cls,
               "'jpg': " + kHtmlText);
    add_second("a label that is a word", jpg + tar_member("b.cls", "cat"),
               "the label 'cat' is not an integer (`classes` gives the names of classes)");
    add_second("a label of 2^63", jpg + tar_member("b.cls", "9223372036854775808"),
               "the label '9223372036854775808' is not an integer");
    add_second("a label of 5,000 bytes", jpg + tar_member("b.cls", std::string(5000, '1')),
               "'cls' has 5000 bytes, too many for a label");
    add_first("a tar without images", tar_member("a.cls", "1"),
              "has no image (jpg, jpeg, png, webp), only cls");
    const std::string cut = good_jpeg().substr(0, good_jpeg().size() - 8) + "\xFF\xD9";
    add("an image without its end",
        good_sample_ + tar_member("b.jpg", cut) + tar_member("b.cls", "1") + kTarEnd,
        fmt::format(" @ offset {} (key b): truncated JPEG at byte", good_sample_.size()),
        Exit::data);
  }

  void values() {
    const std::string jpg = tar_member("a.jpg", good_jpeg());
    const auto json = [&](const std::string& text) { return jpg + tar_member("a.json", text); };
    add_first("JSON that is cut off", json(R"({"label": 1)"),
              "'json' is not valid JSON: see its byte");
    add_first("JSON that is a list", json("[1]"), "'json' is not a JSON object {...}");
    add_first("100,000 lists in each other",
              json(R"({"x": )" + std::string(100'000, '[') + std::string(100'000, ']') + "}"),
              "'json' is nested more than 64 deep");
    add_first("a JSON number of 400 digits", json(R"({"x": 1)" + std::string(400, '0') + "}"),
              "'json' holds a number that is too large");
    add_first("JSON of 17 MiB", json(std::string(size_t{17} << 20, ' ')),
              "'json' has 17825792 bytes, more than the limit of 16 MiB");
    const auto npy = [&](const std::string& name, const std::string& content,
                         const std::string& text) {
      add(name, jpg + tar_member("a.npy", content) + kTarEnd,
          " @ offset 0 (key a): error: 'npy', byte " + text, Exit::data);
    };
    const std::string dictionary = "{'descr': '|O', 'fortran_order': False, 'shape': (4,)}";
    npy("an array of pickled objects",
        std::string("\x93NUMPY\1\0", 8) + little(dictionary.size(), 2) + dictionary,
        "20: dtype '|O' is not supported: pickled Python objects are never loaded");
    npy("an array that is cut off", "\x93NUM", "0: not an npy array");
  }

  const std::string good_sample_ = tar_member("a.jpg", good_jpeg()) + tar_member("a.cls", "1");
  const std::string good_ = good_sample_ + kTarEnd;
  BadDataTable table_;
};

}  // namespace bv::test
