// Broken data sets of TFDS, of TFRecord and of ArrayRecord files, and broken TFRecord files alone.
#pragma once

#include <sys/stat.h>

#include "test/support/bad_data/image_folders.h"
#include "test/support/bad_data/record_writers.h"

namespace bv::test {

class TfdsTable {
 public:
  BadDataTable make() {
    infos();
    long_names();
    splits();
    features();
    frames();
    examples();
    array_records();
    return std::move(table_);
  }

  GoodData good() const { return {kSection, good_, 2}; }
  GoodData good_array_record() const {
    const std::string chunk = riegeli_chunk(plain_records({example_}), 1);
    return {kSection, array_files(array_record_file({chunk}, kArrayRecordMagic)), 1};
  }

 private:
  static inline const std::string kSection = "name: tfds\ndata_dir: DIR\n";
  static inline const std::string kInfo = "dataset_info.json", kFeatures = "features.json";
  static inline const std::string kShard = "d-train.tfrecord-00000-of-00001";
  static inline const std::string kArrayShard = "d-train.array_record-00000-of-00001";

  static std::string info_with(const std::string& splits, const std::string& name = "d",
                               const std::string& format = "tfrecord") {
    return R"({"name": ")" + name + R"(", "version": "1.0.0", "fileFormat": ")" + format +
           R"(", "splits": )" + splits + "}";
  }
  static std::string train(const std::string& lengths, const std::string& rest = "") {
    return R"([{"name": "train", "shardLengths": )" + lengths + rest + "}]";
  }
  static std::string features_with(const std::string& label) {
    return R"({"pythonClassName": "x.FeaturesDict", "featuresDict": {"features": {)"
           R"("image": {"pythonClassName": "x.Image", "image": {}}, "label": )" +
           label + "}}}";
  }

  void add(const std::string& name, const std::string& file, const std::string& content,
           const std::string& text, Exit code = Exit::usage) {
    table_.push_back({"tfds: " + name, kSection, changed(good_, file, content), code, text});
  }
  void add_info(const std::string& name, const std::string& content, const std::string& text) {
    add(name, kInfo, content, kInfo + ": error: " + text);
  }
  void add_record(const std::string& name, const std::string& file, const std::string& text,
                  Exit code = Exit::usage) {
    add(name, kShard, file, kShard + text, code);
  }

  void infos() {
    add_info("an empty dataset_info.json", "", "the file is empty");
    add_info("a git-LFS pointer", kLfsPointer, kLfsText);
    add_info("an HTML page in place of dataset_info.json", kHtmlPage, kHtmlText);
    add_info("a dataset_info.json that is cut off", good_.at(kInfo).substr(0, 40),
             "is not valid JSON");
    add_info("a dataset_info.json that is not UTF-8", info_with(train("[2]"), "\xFF"),
             "is not valid JSON");
    add_info("a list", "[]", "is a list, expected an object");
    add_info("no splits", R"({"name": "d"})", "has no 'splits'");
    add_info("an empty list of splits", info_with("[]"), "lists no splits");
    add_info("a format that is not known", info_with(train("[2]"), "d", "riegeli"),
             "the files are in the format 'riegeli'");
    add_info("200,000 lists in each other",
             info_with(train("[" + std::string(200'000, '[') + std::string(200'000, ']') + "]")),
             "is nested more than 64 deep");
    add_info("a name that stands for itself", info_with(train("[2]"), "{DATASET}"),
             "'filepathTemplate' '{DATASET}-train.tfrecord-00000-of-00001' is not understood");
    add_info("a name that leaves the folder", info_with(train("[2]"), "../../d"),
             "'filepathTemplate' '../../d-train.tfrecord-00000-of-00001' is not understood");
  }

  void long_names() {
    const std::string at_most = " bytes, but the name of a file can have only 255";
    add_info("a name of 256 bytes", info_with(train("[2]"), std::string(256, 'd')),
             "'name' has 256" + at_most);
    add_info("a split with a name of 256 bytes",
             info_with(R"([{"name": ")" + std::string(256, 's') + R"(", "shardLengths": [2]}])"),
             "the name of a split has 256" + at_most);
    std::string repeated;
    for (int i = 0; i < 28; ++i) repeated += "{DATASET}";
    const auto with_template = [&](const std::string& pattern) {
      return info_with(train("[2]", R"(, "filepathTemplate": ")" + pattern + '"'),
                       std::string(100, 'd'));
    };
    add_info("a template of 259 bytes", with_template(repeated + "{SPLIT}"),
             "'filepathTemplate' has 259" + at_most);
    add_info("a template that repeats a long name", with_template(repeated),
             "a name that 'filepathTemplate' makes has 343" + at_most);
    add("a feature with a name of 1,001 bytes", kFeatures,
        R"({"featuresDict": {"features": {"a": {"featuresDict": {"features": {")" +
            std::string(999, 'b') + R"(": {"text": {}}}}}}}})",
        kFeatures + ": error: the name of a feature has 1001 bytes, more than 1000");
  }

  void splits() {
    add_info("a split that is a number", info_with("[5]"),
             "a split is the number 5, expected an object");
    add_info("a split without a name", info_with(R"([{"shardLengths": [2]}])"), "has no 'name'");
    add_info("a split without lengths", info_with(R"([{"name": "train"}])"),
             "split 'train' has no 'shardLengths'");
    add_info("a negative length", info_with(train("[-1]")),
             "split 'train': -1 is not a number of examples");
    add_info("a length of 2^63", info_with(train(R"(["9223372036854775808"])")),
             R"(split 'train': "9223372036854775808" is not a number of examples)");
    add_info("a length of 2^41", info_with(train("[2199023255552]")),
             "split 'train': 2199023255552 is not a number of examples");
    add_info("a template with a path",
             info_with(train("[2]", R"(, "filepathTemplate": "../{SPLIT}")")),
             "'filepathTemplate' '../train' is not understood");
    add_info("a template with an unknown word",
             info_with(train("[2]", R"(, "filepathTemplate": "{X}")")),
             "'filepathTemplate' '{X}' is not understood");
    add_info("files in another folder", info_with(train("[2]", R"(, "filepathPrefix": "gs://x")")),
             "split 'train' is in another folder");
    table_.push_back({"tfds: a file that is missing", kSection, without(good_, kShard), Exit::usage,
                      kShard + ": error: no such file"});
    table_.push_back(
        {"tfds: a pipe in place of a file", kSection, without(good_, kShard), Exit::usage,
         kShard + ": error: is a pipe, not a file",
         [](const std::string& folder) { ::mkfifo((folder + "/" + kShard).c_str(), 0600); }});
    add("a length that is not that of the file", kInfo, info_with(train("[3]")),
        kShard + ": error: holds 2 examples, but dataset_info.json says 3");
  }

  void features() {
    const auto add_features = [&](const std::string& name, const std::string& content,
                                  const std::string& text) {
      add(name, kFeatures, content, kFeatures + ": error: " + text);
    };
    add_features("an empty features.json", "", "the file is empty");
    add_features("a git-LFS pointer in place of features.json", kLfsPointer, kLfsText);
    add_features("a feature that is no object", features_with("5"),
                 "feature 'label': is not an object");
    const auto tensor = [](const std::string& dimensions) {
      return features_with(R"({"tensor": {"dtype": "int64", "shape": {"dimensions": )" +
                           dimensions + "}}}");
    };
    add_features("a size that is no number", tensor(R"(["x"])"),
                 "feature 'label': 'x' is not a size");
    add_features("a size of -2", tensor("[-2]"), "feature 'label': '-2' is not a size");
    add_features("nine dimensions", tensor("[1, 1, 1, 1, 1, 1, 1, 1, 1]"),
                 "feature 'label': has more than 8 dimensions");
    add_features("200,000 lists in each other as a size",
                 tensor("[" + std::string(200'000, '[') + std::string(200'000, ']') + "]"),
                 "is nested more than 64 deep");
    std::string deep = R"({"classLabel": {}})";
    for (int i = 0; i < 40; ++i) deep = R"({"featuresDict": {"features": {"a": )" + deep + "}}}";
    add_features("40 dictionaries in each other", features_with(deep),
                 "is nested more than 64 deep");
    Files flags = changed(good_, kFeatures,
                          features_with(R"({"tensor": {"dtype": "bool", "encoding": "bytes"}})"));
    flags[kShard] = tfrecord(tf_example(
                        {{"image", bytes_feature(good_jpeg())}, {"label", bytes_feature("\2")}})) +
                    flags[kShard];
    flags[kInfo] = info_with(train("[3]"));
    table_.push_back({"tfds: a bool of 2 among bytes", kSection, flags, Exit::data,
                      kShard + " @ offset 0: error: feature 'label' holds a bool that is neither 0 "
                               "nor 1"});
    add("a shape whose product is 2^64", kFeatures, tensor("[4294967296, 4294967296]"),
        kShard + " @ offset 0: error: feature 'label' its shape is too large", Exit::data);
  }

  void frames() {
    const std::string good = good_.at(kShard), one = tfrecord(example_);
    add_record("an empty file", "", ": error: the file is empty");
    add_record("a git-LFS pointer in place of records", kLfsPointer, ": error: " + kLfsText);
    add_record("an HTML page", kHtmlPage, ": error: " + kHtmlText);
    add_record("a file that is compressed", "\x1F\x8B" + good,
               ": error: this TFRecord file is compressed; unpack it with gunzip");
    add_record(
        "no TFRecord file", std::string(100, 'x'),
        " @ offset 0: error: not a TFRecord file: the checksum of the first length is wrong");
    add_record("a file cut in its first length", good.substr(0, 7),
               " @ offset 0: error: the file ends inside the head of a record");
    add_record("a file cut behind its first length", good.substr(0, 12),
               fmt::format(" @ offset 0: error: the file ends inside a record of {} bytes",
                           example_.size()));
    add_record("a file cut in its second record", good.substr(0, one.size() + 30),
               fmt::format(" @ offset {}: error: the file ends inside a record of {} bytes",
                           one.size(), example_.size()));
    add_record("a file without its last byte", good.substr(0, good.size() - 1),
               fmt::format(" @ offset {}: error: the file ends inside a record of", one.size()));
    add_record("a file with a byte too many", good + "x",
               fmt::format(" @ offset {}: error: the file ends inside the head", good.size()));
    add_record(
        "a flipped bit in a length", flipped(good, one.size() + 1),
        fmt::format(" @ offset {}: error: the checksum of a record's length is wrong", one.size()));
    add_record(
        "a record of 2^63 bytes", tfrecord_head(uint64_t{1} << 63) + good,
        " @ offset 0: error: a record of 9223372036854775808 bytes; the limit is 1073741824");
    add_record("a record of 2 GiB", tfrecord_head(uint64_t{1} << 31) + good,
               " @ offset 0: error: a record of 2147483648 bytes; the limit is 1073741824");
    add_record(
        "a flipped bit in a record", one + flipped(one, 30),
        fmt::format(" @ offset {}: error: the checksum of the record's data is wrong", one.size()),
        Exit::data);
    add_record(
        "a flipped bit in a checksum", one + flipped(one, one.size() - 1),
        fmt::format(" @ offset {}: error: the checksum of the record's data is wrong", one.size()),
        Exit::data);
  }

  // Adds a row in which the second record is another Example.
  void add_example(const std::string& name, const std::string& example, const std::string& text,
                   Exit code = Exit::data) {
    const std::string one = tfrecord(example_);
    add_record(name, one + tfrecord(example),
               fmt::format(" @ offset {}: error: {}", one.size(), text), code);
  }

  void examples() {
    add_example("a record that is text", "not an Example", "the record is not a tf.train.Example",
                Exit::usage);
    add_example("a map longer than its record", "\x0A\xFF\x7F" + example_.substr(3),
                "the record is not a valid tf.train.Example", Exit::usage);
    add_example("a number of 11 bytes", "\x0A" + std::string(10, '\xFF') + "\1",
                "not a valid protobuf message: a number is longer than 10 bytes", Exit::usage);
    add_example("a record without an image", tf_example({{"label", label_feature(1)}}),
                "feature 'image' is missing in this record");
    add_example("a record without a label", tf_example({{"image", bytes_feature(good_jpeg())}}),
                "feature 'label' is missing in this record");
    const std::string image = bytes_feature(good_jpeg());
    add_example("a label that is bytes",
                tf_example({{"image", image}, {"label", bytes_feature("x")}}),
                "feature 'label' holds byte strings, expected integers");
    add_example("two labels",
                tf_example({{"image", image}, {"label", bytes_field(3, bytes_field(1, "\1\1"))}}),
                "feature 'label' holds 2 numbers, which do not make the shape ()");
    add_example("two images in one feature",
                tf_example({{"image", bytes_field(1, bytes_field(1, "a") + bytes_field(1, "b"))},
                            {"label", label_feature(1)}}),
                "feature 'image' holds 2 values, expected one");
    add_example("a list of numbers that is cut off",
                tf_example({{"image", image}, {"label", bytes_field(3, bytes_field(1, "\xFF"))}}),
                "not a valid protobuf message: a number is cut off", Exit::usage);
    const auto repeated = [](const std::string& field, size_t count) {
      std::string all;
      for (size_t i = 0; i < count; ++i) all += field;
      return all;
    };
    const std::string nothing = bytes_field(1, "");  // an empty name, or an empty string
    add_example("100,001 features without names",
                bytes_field(1, repeated(bytes_field(1, nothing), 100'001)),
                "the record has more than 100,000 features");
    add_example("2^20 + 1 empty strings in a feature",
                tf_example({{"image", bytes_field(1, repeated(nothing, (1 << 20) + 1))},
                            {"label", label_feature(1)}}),
                "feature 'image' holds more than 1,048,576 byte strings");
    const std::string cut = good_jpeg().substr(0, good_jpeg().size() - 8) + "\xFF\xD9";
    add_record(
        "an image without its end",
        tfrecord(example_) +
            tfrecord(tf_example({{"image", bytes_feature(cut)}, {"label", label_feature(1)}})),
        fmt::format(" @ offset {}: truncated JPEG at byte", tfrecord(example_).size()), Exit::data);
  }

  // Returns a data set of one ArrayRecord file, which should hold one example.
  Files array_files(const std::string& file) const {
    Files files = without(good_, kShard);
    files[kInfo] = info_with(train("[1]"), "d", "array_record");
    files[kArrayShard] = file;
    return files;
  }
  void add_array(const std::string& name, const std::string& file, const std::string& text,
                 Exit code = Exit::usage) {
    table_.push_back({"tfds: " + name, kSection, array_files(file), code, kArrayShard + text});
  }
  // Adds a row in which the only chunk is another one. The error comes when an example is read.
  void add_chunk(const std::string& name, const std::string& chunk, const std::string& text) {
    add_array(name, array_record_file({chunk}, kArrayRecordMagic),
              fmt::format(" @ offset {}: error: {}", 64, text), Exit::data);
  }

  void array_records() {
    const std::string not_whole = ": error: not a whole ArrayRecord file: ";
    const std::string chunk = riegeli_chunk(plain_records({example_}), 1);
    const std::string good = array_record_file({chunk}, kArrayRecordMagic);
    add_array("an empty ArrayRecord file", "", ": error: the file is empty");
    add_array("a git-LFS pointer in place of an ArrayRecord file", kLfsPointer,
              ": error: " + kLfsText);
    add_array("an HTML page in place of an ArrayRecord file", kHtmlPage, ": error: " + kHtmlText);
    add_array("an ArrayRecord file cut at its last block", good.substr(0, 65536),
              not_whole + "is not a chunk of records");
    add_array("an ArrayRecord file without its last byte", good.substr(0, good.size() - 1),
              not_whole + "the file ends inside a chunk");
    add_array("an ArrayRecord file of another kind", array_record_file({chunk}, 7),
              not_whole + "does not end as an ArrayRecord file does; it may be cut off");
    add_array("a table of contents with a flipped bit", flipped(good, 64 + chunk.size() + 45),
              not_whole + "the checksum of a chunk's data is wrong");
    add_array("a chunk of 2^41 records",
              array_record_file({chunk}, kArrayRecordMagic, uint64_t{1} << 41),
              not_whole + "its table of contents has an impossible number of records");
    add_array("a chunk of 3 records that has one", array_record_file({chunk}, kArrayRecordMagic, 3),
              ": error: holds 3 examples, but dataset_info.json says 1");
    add_chunk("a chunk with a flipped bit", flipped(chunk, 60),
              "the checksum of a chunk's data is wrong");
    add_chunk("a chunk with a flipped bit in its head", flipped(chunk, 9),
              "the checksum of a chunk's head is wrong");
    add_chunk("a transposed chunk", riegeli_chunk(plain_records({example_}), 1, 't'),
              "a transposed chunk, which cannot be read");
    add_chunk("a chunk without data", riegeli_chunk("", 1), "a chunk of records without data");
    add_chunk("a chunk that Brotli has packed", riegeli_chunk("b" + std::string(9, '\1'), 1),
              "is packed with Brotli; only zstd can be read");
    add_chunk("a record longer than its chunk",
              riegeli_chunk(std::string("\0\1\x7F", 3) + "abc", 1),
              "a record is longer than its chunk");
    add_chunk("a chunk with fewer records than it says",
              riegeli_chunk(plain_records({example_}), 9), "has fewer records than it says");
    const std::string sizes = zstd_part(varint(3), 1);
    const auto packed = [&](const std::string& part) {
      return riegeli_chunk("z" + varint(sizes.size()) + sizes + part, 1);
    };
    add_chunk("a packed chunk that is shorter than it says", packed(zstd_part("abc", 4)),
              "is shorter than it says");
    add_chunk("a packed chunk that is no zstd", packed(varint(3) + "not zstd"),
              "cannot be unpacked: ");
    add_chunk("a packed chunk of few bytes that claims 900 MiB",
              packed(zstd_part("abc", uint64_t{900} << 20)), "claims to unpack from ");
    add_chunk("a packed chunk that claims 2 GiB", packed(zstd_part("abc", uint64_t{2} << 30)),
              "a chunk of 2147483648 bytes; the limit is 1073741824");
    const std::string zeros = zstd_part(std::string(size_t{64} << 20, '\0'), uint64_t{64} << 20);
    add_chunk(
        "a packed chunk of 67 million empty records",
        riegeli_chunk("z" + varint(zeros.size()) + zeros + zstd_part("", 0), uint64_t{64} << 20),
        "a chunk of 67108864 records; the limit is");
  }

  const std::string example_ =
      tf_example({{"image", bytes_feature(good_jpeg())}, {"label", label_feature(1)}});
  const Files good_ = {
      {kInfo, info_with(train("[2]"))},
      {kFeatures, features_with(R"({"pythonClassName": "x.ClassLabel", "classLabel": {}})")},
      {kShard, tfrecord(example_) + tfrecord(example_)}};
  BadDataTable table_;
};

}  // namespace bv::test
