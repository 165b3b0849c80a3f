// What the names of class folders say: classes, several labels, numbers.
#include "lib/input/sources/common/folder_labels.h"

#include <catch2/catch.hpp>

#include "lib/input/data_notes.h"
#include "lib/input/prepare_data.h"
#include "test/support/config.h"
#include "test/support/error.h"
#include "test/support/folder.h"
#include "test/support/image_files.h"

using namespace bv;
using namespace bv::test;

namespace {

using Names = std::vector<std::string>;

// An image folder with an image in each of the class folders `names`.
struct Folder : TempFolder {
  explicit Folder(const Names& names) {
    for (const std::string& name : names) write(name + "/1.jpg", flat_jpeg(100));
  }
  std::shared_ptr<const Dataset> open(const std::string& keys) const {
    return from_yaml("name: image_folder\ndata_dir: " + path() + "\n" + keys,
                     [](const Config& config) { return prepare_data(config, {}); })(std::nullopt);
  }
  std::string problem(const std::string& keys) const {
    return error_of([&] { open(keys); });
  }
};

std::vector<float> labels_of(const Dataset& data, int64_t index) {
  const at::Tensor labels = data.read(index).at("labels");
  REQUIRE(labels.scalar_type() == at::kFloat);
  const float* begin = labels.const_data_ptr<float>();
  return {begin, begin + labels.numel()};
}

}  // namespace

TEST_CASE("a folder has several labels in its name", "[image_folder]") {
  const Folder folder({"blue_dress", "blue_shirt", "red_dress", "shoe"});
  const auto data = folder.open("separator: _\n");
  CHECK(data->source().class_names() == Names{"blue", "dress", "red", "shirt", "shoe"});
  CHECK(labels_of(*data, 0) == std::vector<float>{1, 1, 0, 0, 0});
  CHECK(labels_of(*data, 1) == std::vector<float>{1, 0, 0, 1, 0});
  CHECK(labels_of(*data, 2) == std::vector<float>{0, 1, 1, 0, 0});
  CHECK(labels_of(*data, 3) == std::vector<float>{0, 0, 0, 0, 1});
  CHECK(!data->read(0).contains("label"));
  CHECK(!data->source().labels(0).defined());
}

TEST_CASE("the classes of several labels are those of all splits", "[image_folder]") {
  const Folder folder({"train/red_dress", "train/blue", "val/blue_shirt"});
  const auto data = folder.open("separator: _\nsplit: val\n");
  CHECK(data->source().class_names() == Names{"blue", "dress", "red", "shirt"});
  CHECK(labels_of(*data, 0) == std::vector<float>{1, 0, 0, 1});
}

TEST_CASE("the name of a folder is a number", "[image_folder]") {
  const Folder folder({"1", "100", "25.5", "007", "-3"});
  const auto data = folder.open("label: number\n");
  CHECK(data->source().class_names().empty());
  CHECK(!data->source().labels(0).defined());
  std::vector<float> found;
  for (int64_t i = 0; i < data->size(); ++i) {
    const at::Tensor label = data->read(i).at("label");
    CHECK(label.scalar_type() == at::kFloat);
    CHECK(label.dim() == 0);
    found.push_back(label.item<float>());
  }
  CHECK(found == std::vector<float>{-3, 7, 1, 100, 25.5});  // in the order of the names
}

TEST_CASE("the name of a folder is several numbers", "[image_folder]") {
  const Folder folder({"1.5x-2", "0x00"});
  const auto data = folder.open("label: number\nseparator: x\n");
  CHECK(labels_of(*data, 0) == std::vector<float>{0, 0});
  CHECK(labels_of(*data, 1) == std::vector<float>{1.5, -2});
}

TEST_CASE("names of folders that do not fit the keys", "[image_folder]") {
  const Folder folder({"blue_dress", "shoe"});
  CHECK(folder.problem("separator: '-'\n") ==
        "t.yaml:3:12: error: separator: no folder has '-' in its name, such as 'blue_dress'");
  CHECK(folder.problem("separator: ''\n") == "t.yaml:3:12: error: separator: is empty");
  CHECK(folder.problem("label: number\n") ==
        "t.yaml:3:8: error: label: number, but 'blue_dress' in the name of the folder 'blue_dress' "
        "is no number; `separator` says what stands between several numbers");
  CHECK(folder.problem("label: number\nseparator: _\n") ==
        "t.yaml:3:8: error: label: number, but 'blue' in the name of the folder 'blue_dress' is no "
        "number");
  CHECK(folder.problem("label: name\n").starts_with("t.yaml:3:8: error: "));
  CHECK(Folder({"a__b"}).problem("separator: _\n") ==
        "t.yaml:3:12: error: separator: the folder 'a__b' has an empty label");
  CHECK(Folder({"a_b", "c_"}).problem("separator: _\n") ==
        "t.yaml:3:12: error: separator: the folder 'c_' has an empty label");
  CHECK(Folder({"1_2", "3"}).problem("label: number\nseparator: _\n") ==
        "t.yaml:4:12: error: separator: the folder '3' has 1 numbers, but '1_2' has 2");
}

TEST_CASE("a list beside the class folders is not read, and that is said", "[image_folder]") {
  const Folder folder({"cat", "dog"});
  const auto remarks = [&] { return folder.open("")->source().file_notes(0).remarks; };
  CHECK(remarks().empty());
  folder.write("metadata.csv", "file_name,age\ncat/1.jpg,3\ndog/1.jpg,4\n");
  CHECK(remarks() == Names{folder / "metadata.csv" +
                           " is not read, the labels are the names of the folders; {name: csv, "
                           "fname: " +
                           (folder / "metadata.csv") + "} reads it"});
}
