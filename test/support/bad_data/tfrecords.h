// Broken TFRecord files for the source tfrecord, which has no dataset_info.json beside them.
#pragma once

#include <sys/stat.h>

#include "test/support/bad_data/image_folders.h"
#include "test/support/bad_data/record_writers.h"

namespace bv::test {

class TfrecordTable {
 public:
  BadDataTable make() {
    files();
    records();
    return std::move(table_);
  }
  GoodData good() const { return {kSection, {{"d", one_ + one_}}, 2}; }

 private:
  static inline const std::string kSection = "name: tfrecord\nfiles: DIR/d\n";

  void add(const std::string& name, const std::string& content, const std::string& text,
           Exit code = Exit::usage, const std::string& section = kSection) {
    table_.push_back({"tfrecord: " + name, section, {{"d", content}}, code, "d" + text});
  }

  void files() {
    add("an empty file", "", ": error: the file is empty");
    add("a git-LFS pointer", kLfsPointer, ": error: " + kLfsText);
    add("an HTML page", kHtmlPage, ": error: " + kHtmlText);
    add("a file that is compressed", "\x1F\x8B" + one_,
        ": error: this TFRecord file is compressed");
    add("a file cut in its first length", one_.substr(0, 9),
        " @ offset 0: error: the file ends inside the head of a record");
    for (const size_t cut : {one_.size() - 1, one_.size() - 4, size_t{12}})
      add(fmt::format("a second record cut at byte {}", cut), one_ + one_.substr(0, cut),
          fmt::format(" @ offset {}: error: the file ends inside a record of {} bytes", one_.size(),
                      example_.size()));
    add("a flipped bit in a length", flipped(one_, 0),
        " @ offset 0: error: not a TFRecord file: the checksum of the first length is wrong");
    table_.push_back(
        {"tfrecord: no file", kSection, {}, Exit::usage, "t.yaml:2:8: error: no such file: 'd'"});
    table_.push_back({"tfrecord: a pipe",
                      kSection,
                      {},
                      Exit::usage,
                      "d: error: is a pipe, not a file",
                      [](const std::string& folder) { ::mkfifo((folder + "/d").c_str(), 0600); }});
    table_.push_back({"tfrecord: a pattern that matches nothing",
                      "name: tfrecord\nfiles: DIR/x-*\n",
                      {{"d", one_}},
                      Exit::usage,
                      "t.yaml:2:8: error: no file matches 'x-*'"});
  }

  void records() {
    const std::string at = fmt::format(" @ offset {}: error: ", one_.size());
    add("a flipped bit in a record", one_ + flipped(one_, 40),
        at + "the checksum of the record's data is wrong", Exit::data);
    add("a first record that is no Example", tfrecord("text"),
        " @ offset 0: error: the record is not a tf.train.Example");
    add("a second record without a label",
        one_ + tfrecord(tf_example({{"image", bytes_feature(good_jpeg())}})),
        at + "no feature 'label'; there are: image", Exit::data);
    const std::string captioned = tfrecord(tf_example({{"image", bytes_feature(good_jpeg())},
                                                       {"label", label_feature(1)},
                                                       {"text", bytes_feature("a cat")}}));
    add("a second record without a text", captioned + one_,
        fmt::format(" @ offset {}: error: no feature 'text'; there are: image, label; to leave it "
                    "out, list the features to read in `features`",
                    captioned.size()),
        Exit::data);
    add("an image without its end",
        one_ + tfrecord(tf_example({{"image", bytes_feature(good_jpeg().substr(0, 400))},
                                    {"label", label_feature(1)}})),
        fmt::format(" @ offset {}: truncated JPEG at byte 400", one_.size()), Exit::data);
    add("a list of float32 numbers that is cut off",
        one_ + tfrecord(tf_example({{"image", bytes_field(2, bytes_field(1, "12345"))},
                                    {"label", label_feature(1)}})),
        at + "feature 'image' not a valid tf.train.Example: a list of float32 is cut", Exit::data);
    std::string texts = bytes_field(1, std::string(200'000, 'x'));
    for (int i = 0; i < 20'000; ++i) texts += bytes_field(1, "y");
    add("texts that take 4 GB when they are padded",
        one_ +
            tfrecord(tf_example({{"image", bytes_field(1, texts)}, {"label", label_feature(1)}})),
        at +
            "feature 'image' holds strings that need more than 64 MiB when padded to equal lengths",
        Exit::data);
  }

  const std::string example_ =
      tf_example({{"image", bytes_feature(good_jpeg())}, {"label", label_feature(1)}});
  const std::string one_ = tfrecord(example_);
  BadDataTable table_;
};

}  // namespace bv::test
