// The same images in every format, as the programs that define the formats wrote them
// (test/data/README.md), give the same examples in the same order.
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <nlohmann/json.hpp>

#include "lib/input/image/decode.h"
#include "lib/input/ops/common/text_tensor.h"
#include "lib/input/prepare_data.h"
#include "lib/util/file.h"
#include "test/input/open_data.h"
#include "test/support/bad_data/record_writers.h"
#include "test/support/compare.h"
#include "test/support/digits_40.h"
#include "test/support/error.h"
#include "test/support/folder.h"
#include "test/support/image_files.h"

namespace bv::test {
namespace {

// Sets the cache folder for a test, so that stored indexes of other tests are not found.
class OwnCache {
 public:
  OwnCache() { setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1); }
  ~OwnCache() { unsetenv("XDG_CACHE_HOME"); }
  const std::string& path() const { return folder_.path(); }

 private:
  TempFolder folder_;
};

at::Tensor decoded(const Example& example) {
  const at::Tensor& file = example.at("image");
  return decode_image({file.const_data_ptr<uint8_t>(), static_cast<size_t>(file.numel())}, 1,
                      false);
}

// Compares `data`, whose images are encoded, with the npz file of a split.
void check_same_images(const Dataset& data, const std::string& split) {
  const auto expected =
      open_data("{name: npz, fname: " + digits_40() + "/" + split + ".npz, split: all}");
  REQUIRE(data.size() == expected->size());
  for (int64_t i = 0; i < data.size(); ++i) {
    const Example example = data.read(i), wanted = expected->read(i);
    REQUIRE(decoded(example).equal(wanted.at("image")));
    REQUIRE(example.at("label").equal(wanted.at("label")));
  }
}

std::string tfds_section(const std::string& folder, const std::string& split = "train") {
  return "{name: digits_40, data_dir: " + digits_40() + "/" + folder + ", split: '" + split + "'}";
}

// Copies the TFDS folder to change it.
std::string copied_tfds(const TempFolder& temp) {
  std::filesystem::copy(digits_40() + "/tfds", temp / "tfds",
                        std::filesystem::copy_options::recursive);
  return temp / "tfds/digits_40/1.0.0";
}

// Writes the TFDS data set `d`, whose split train has `count` records. `features`: the members of
// the dictionary of features.
void write_tfds(const TempFolder& temp, const std::string& features, const std::string& records,
                int count) {
  write(temp / "d-train.tfrecord-00000-of-00001", records);
  write(temp / "dataset_info.json",
        R"({"name": "d", "version": "1.0.0", "fileFormat": "tfrecord", "splits": [{"name": "train",
          "shardLengths": [")" +
            std::to_string(count) + R"("],
          "filepathTemplate": "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"}]})");
  write(temp / "features.json", R"({"featuresDict": {"features": {)" + features + "}}}");
}

}  // namespace

TEST_CASE("TFDS folders of both record formats hold the images of the npz file", "[formats]") {
  const OwnCache cache;
  for (const std::string folder : {"tfds", "tfds_array_record"}) {
    for (const std::string split : {"train", "test"}) {
      INFO(folder << " " << split);
      const auto data = open_data(tfds_section(folder, split));
      check_same_images(*data, split);
      CHECK(data->class_names().size() == 10);
      CHECK(data->missing_classes().empty());
      CHECK(data->labels_of_splits().empty() == (folder == "tfds_array_record"));
    }
  }
  // Slices, in examples and in shards, and the other names of the source.
  const auto all = open_data(tfds_section("tfds", "train"));
  const auto slice = open_data(tfds_section("tfds", "train[25%:60%]+test[1shard]"));
  CHECK(slice->size() == 14 + 20);
  CHECK(same_bits(slice->read(0), all->read(10)));
  const std::string version = digits_40() + "/tfds/digits_40/1.0.0";
  for (const std::string name : {"tfds", "from_data_dir"}) {
    const auto direct = open_data("{name: " + name + ", data_dir: " + version + "}");
    CHECK(same_bits(direct->read(39), all->read(39)));
  }
  CHECK(open_data("{name: 'digits_40:1.*.*', data_dir: " + digits_40() + "/tfds}")->size() == 40);
  setenv("TFDS_DATA_DIR", (digits_40() + "/tfds").c_str(), 1);
  CHECK(open_data("{name: digits_40, split: all}")->size() == 80);
  unsetenv("TFDS_DATA_DIR");
}

TEST_CASE("nested features of TFDS have their types and shapes", "[formats]") {
  const OwnCache cache;
  const auto order = nlohmann::json::parse(read_file(digits_40() + "/order.json"));
  for (const std::string folder : {"tfds", "tfds_array_record"}) {
    const Example example = open_data(tfds_section(folder))->read(7);
    CHECK(bv::read_text(example.at("id")) == order.at("train")[7].get<std::string>());
    CHECK(example.at("size").equal(at::tensor({8, 8}, at::kInt)));
    CHECK(example.at("mean").scalar_type() == at::kFloat);
    CHECK(example.at("mean").item<float>() == decoded(example).to(at::kFloat).mean().item<float>());
    const at::Tensor box = at::tensor({0.0F, 0.0F, 0.5F, 1.0F});
    CHECK(example.at("objects/bbox").equal(at::stack({box, box})));
    const int64_t kind = example.at("label").item<int64_t>() % 2;
    CHECK(example.at("objects/kind").equal(at::tensor({kind, kind}, at::kLong)));
  }
  // Images that may be decoded at once.
  const auto data =
      open_data("{name: digits_40, data_dir: " + digits_40() + "/tfds, skip_decode: []}");
  CHECK(data->read(3).at("image").sizes() == at::IntArrayRef{8, 8, 1});
}

TEST_CASE("a TFDS folder may hold JPEG, PNG and WebP", "[formats]") {
  const OwnCache cache;
  const TempFolder temp;
  const at::Tensor image = at::full({8, 8, 3}, 150, at::kByte);
  std::string records;
  for (const std::string& file :
       {flat_jpeg(150), png_of(image), webp_of(image, /*lossless=*/true)}) {
    records += tfrecord(tf_example({{"image", bytes_feature(file)}, {"label", label_feature(1)}}));
  }
  write_tfds(temp,
             R"("image": {"image": {"shape": {"dimensions": ["-1", "-1", "3"]}}},
                "label": {"classLabel": {"numClasses": "10"}})",
             records, 3);
  const auto data = open_data("{name: tfds, data_dir: " + temp.path() + "}");
  REQUIRE(data->size() == 3);
  for (int64_t i = 0; i < 3; ++i) {
    const at::Tensor file = data->read(i).at("image");
    const at::Tensor pixels =
        decode_image({file.const_data_ptr<uint8_t>(), static_cast<size_t>(file.numel())}, 3, false);
    CHECK((pixels.to(at::kInt) - 150).abs().max().item<int>() <= 1);
  }
}

TEST_CASE("images of a TFDS folder that 8 bits cannot hold are left out", "[formats]") {
  const OwnCache cache;
  const TempFolder temp;
  const auto image_of = [](const std::string& dtype) {
    return R"({"image": {"dtype": ")" + dtype + R"(", "shape": {"dimensions": ["8", "8", "1"]}}})";
  };
  const std::string file = bytes_feature(flat_jpeg(90));
  write_tfds(
      temp,
      R"("image": )" + image_of("uint16") + R"(, "mask": )" + image_of("uint16") +
          R"(, "depth": )" + image_of("float32") + R"(, "grey": )" + image_of("uint8"),
      tfrecord(tf_example({{"image", file}, {"mask", file}, {"depth", file}, {"grey", file}})), 1);
  const auto open = [&](const std::string& rest) {
    return open_data("{name: tfds, data_dir: " + temp.path() + rest + "}");
  };
  const std::string depth = "feature 'depth' is left out: it is an image of float32";
  const auto data = open("");
  CHECK(data->read(0).size() == 2);
  CHECK(data->read(0).at("grey").sizes() == at::IntArrayRef{8, 8, 1});
  CHECK(data->read(0).at("image").dim() == 1);  // for the op `decode`
  CHECK(data->source().file_notes(0).remarks ==
        std::vector<std::string>{depth, "feature 'mask' is left out: it is an image of uint16"});
  const auto encoded = open(", skip_decode: [image, mask, depth]");
  CHECK(encoded->read(0).at("mask").dim() == 1);
  CHECK(encoded->source().file_notes(0).remarks == std::vector<std::string>{depth});
}

TEST_CASE("of the class names of a TFDS folder, only those of the feature label are read",
          "[formats]") {
  const OwnCache cache;
  const TempFolder temp;
  const std::string class_label = R"({"classLabel": {"numClasses": "2"}})";
  write_tfds(temp, R"("label": )" + class_label + R"(, "breed": )" + class_label,
             tfrecord(tf_example({{"breed", label_feature(1)}, {"label", label_feature(0)}})), 1);
  write(temp / "label.labels.txt", "cat\ndog\n");
  write(temp / "breed.labels.txt", "\xFF");
  const auto data = open_data("{name: tfds, data_dir: " + temp.path() + "}");
  CHECK(data->class_names() == std::vector<std::string>{"cat", "dog"});
  CHECK(data->read(0).at("breed").item<int64_t>() == 1);
}

TEST_CASE("an index that is stored is used until a file changes", "[formats]") {
  const OwnCache cache;
  const TempFolder temp;
  const std::string version = copied_tfds(temp);
  const std::string shard = version + "/digits_40-train.tfrecord-00001-of-00002";
  const auto past = std::filesystem::file_time_type::clock::now() - std::chrono::hours(1);
  for (const auto& entry : std::filesystem::directory_iterator(version))
    std::filesystem::last_write_time(entry.path(), past);
  const std::string section = "{name: tfds, data_dir: " + version + "}";
  CHECK(open_data(section)->labels_of_splits().size() == 10);
  const auto stored = [&] {
    return std::distance(std::filesystem::directory_iterator(cache.path() + "/bvtrain/index"), {});
  };
  CHECK(stored() == 1);
  CHECK(open_data(section)->labels_of_splits().size() == 10);
  // A truncated file is detected, although its index is stored.
  std::filesystem::resize_file(shard, 3000);
  CHECK_THAT(error_of([&] { open_data(section)->labels_of_splits(); }),
             Catch::StartsWith(shard + " @ offset ") &&
                 Catch::Contains("error: the file ends inside a record of "));
}

TEST_CASE("broken TFRecord files are told with file and offset", "[formats]") {
  const OwnCache cache;
  const TempFolder temp;
  const std::string version = copied_tfds(temp);
  const std::string shard = version + "/digits_40-train.tfrecord-00000-of-00002";
  const std::string good = read_file(shard);
  const std::string section = "{name: tfds, data_dir: " + version + "}";
  const auto opened = [&](const std::string& content) {
    write(shard, content);
    return error_of([&] { open_data(section)->labels_of_splits(); });
  };
  CHECK(opened("") == shard + ": error: the file is empty");
  CHECK(opened("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n") ==
        shard +
            ": error: this is a git-LFS pointer, not the data itself: run 'git lfs pull' "
            "where it came from");
  CHECK(opened("<!DOCTYPE html><html>404</html>") ==
        shard +
            ": error: this is an HTML page, probably an error message of a web server: "
            "download it again");
  CHECK(opened("\x1F\x8B" + good) ==
        shard + ": error: this TFRecord file is compressed; unpack it with gunzip");
  CHECK(opened(good.substr(0, 7)) ==
        shard + " @ offset 0: error: the file ends inside the head of a record");
  std::string broken = good;
  broken[3] ^= 1;
  CHECK(opened(broken) == shard +
                              " @ offset 0: error: not a TFRecord file: the checksum of the "
                              "first length is wrong");
  CHECK(opened(good + good.substr(0, 100))
            .starts_with(shard + " @ offset 6117: error: the file ends inside a record of "));
  // One whole record too many.
  uint64_t size = 0;
  std::memcpy(&size, good.data(), 8);
  CHECK(opened(good + good.substr(0, size + 16)) ==
        shard + ": error: holds 21 examples, but dataset_info.json says 20");
  // Changed data is detected when the example is read.
  broken = good;
  broken[60] ^= 1;
  write(shard, broken);
  const auto data = open_data(section);
  CHECK(data->read(1).size() == 7);
  CHECK(error_of([&] { data->read(0); }, Exit::data) ==
        shard + " @ offset 0: error: the checksum of the record's data is wrong");
  CHECK(data->describe(0) == shard + " @ offset 0");
  // A record that changes after it was read once is detected only with `always`.
  write(shard, good);
  const auto once = open_data(section);
  const auto always = open_data("{name: tfds, data_dir: " + version + ", verify: always}");
  for (const auto& opened_data : {once, always}) CHECK(opened_data->read(0).size() == 7);
  write(shard, broken);
  CHECK(error_of([&] { once->read(0); }, Exit::data).find("checksum") == std::string::npos);
  CHECK(error_of([&] { always->read(0); }, Exit::data) ==
        shard + " @ offset 0: error: the checksum of the record's data is wrong");
  const auto trusting = open_data("{name: tfds, data_dir: " + version + ", verify: never}");
  CHECK(error_of([&] { trusting->read(0); }, Exit::data).find("checksum") == std::string::npos);
}

TEST_CASE("broken ArrayRecord files are told with the file", "[formats]") {
  const OwnCache cache;
  const TempFolder temp;
  std::filesystem::copy(digits_40() + "/tfds_array_record", temp / "a",
                        std::filesystem::copy_options::recursive);
  const std::string version = temp / "a/digits_40/1.0.0";
  const std::string shard = version + "/digits_40-train.array_record-00000-of-00002";
  const std::string good = read_file(shard);
  const std::string section = "{name: tfds, data_dir: " + version + "}";
  const auto opened = [&](const std::string& content, Exit code = Exit::usage) {
    write(shard, content);
    return error_of([&] { open_data(section)->read(0); }, code);
  };
  CHECK(opened("") == shard + ": error: the file is empty");
  CHECK(opened(good.substr(0, 65536)).starts_with(shard + ": error: not a whole ArrayRecord file"));
  CHECK(opened(good.substr(0, 100)).starts_with(shard + ": error: not a whole ArrayRecord file"));
  std::string broken = good;
  broken[64 + 50] ^= 1;  // in the data of the first record
  CHECK(opened(broken, Exit::data) ==
        shard + " @ offset 64: error: the checksum of a chunk's data is wrong");
  broken = good;
  broken[64 + 10] ^= 1;
  CHECK(opened(broken, Exit::data) ==
        shard + " @ offset 64: error: the checksum of a chunk's head is wrong");
  broken = good;
  broken[64 + 50] ^= 1;
  write(shard, broken);
  const auto trusting = open_data("{name: tfds, data_dir: " + version + ", verify: never}");
  CHECK(error_of([&] { trusting->read(0); }, Exit::data).find("checksum") == std::string::npos);
}

TEST_CASE("folders that are no TFDS data set are told", "[formats]") {
  const OwnCache cache;
  const TempFolder temp;
  const std::string version = copied_tfds(temp);
  const std::string root = temp / "tfds";
  CHECK(open_error("name: digits_41\ndata_dir: " + root) ==
        "t.yaml:1:7: error: unknown data source 'digits_41' (did you mean 'digits'?); known: "
        "digits, from_data_dir, bv:jsonl, cifar, csv, idx, image_folder, jsonl, ... (bvtrain "
        "--list sources prints all); and no TFDS data set in '" +
            root + "' has this name");
  CHECK(open_error("name: image_foldr\ndata_dir: " + root)
            .starts_with("t.yaml:1:7: error: unknown data source 'image_foldr' (did you "
                         "mean 'image_folder'?)"));
  CHECK(open_error("name: digits_40/x\ndata_dir: " + root) ==
        "t.yaml:1:7: error: '" + root + "/digits_40/x' has no version with a dataset_info.json");
  CHECK(open_error("name: digits_40:2.0.0\ndata_dir: " + root) ==
        "t.yaml:1:7: error: '" + root + "/digits_40' has no version 2.0.0; there are: 1.0.0");
  CHECK(open_error("name: ../digits_40\ndata_dir: " + root)
            .starts_with("t.yaml:1:7: error: '../digits_40' is not a TFDS name"));
  CHECK(open_error("{name: tfds}") == "t.yaml: error: data_dir: missing: a string is required");
  const std::string info = version + "/dataset_info.json", good = read_file(info);
  const auto with_info = [&](const std::string& text) {
    write(info, text);
    return open_error("{name: tfds, data_dir: " + version + "}");
  };
  CHECK(with_info("{") == info + ": error: is not valid JSON");
  CHECK(with_info("[]") == info + ": error: is a list, expected an object");
  CHECK(with_info("{}") == info + ": error: has no 'name'");
  CHECK(with_info(R"({"name": "x", "splits": 3})") ==
        info + ": error: 'splits' is the number 3, expected a list");
  CHECK(with_info(R"({"name": "x", "fileFormat": "parquet", "splits": []})") ==
        info +
            ": error: the files are in the format 'parquet'; supported are tfrecord and "
            "array_record (tfds convert_format writes them)");
  CHECK(with_info(R"({"name": "x", "splits": [{"name": "train", "shardLengths": ["-4"]}]})") ==
        info + R"(: error: split 'train': "-4" is not a number of examples)");
  CHECK(with_info(R"({"name": "../x", "splits": [{"name": "train", "shardLengths": ["4"]}]})")
            .starts_with(info + ": error: 'filepathTemplate' "));
  CHECK(with_info(R"({"name": "x", "splits": []})") == info + ": error: lists no splits");
  write(info, good);
  const std::string features = version + "/features.json";
  write(features, R"({"pythonClassName": "x.Video", "video": {}})");
  CHECK(open_error("{name: tfds, data_dir: " + version + "}") ==
        features + ": error: describes no feature that is read");
}

}  // namespace bv::test
