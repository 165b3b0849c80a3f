// Labels in the names of class folders: one class, several labels, numbers.
#include "lib/input/sources/common/folder_labels.h"

#include <ATen/ops/tensor.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "lib/input/prepare_data.h"
#include "test/input/lists.h"
#include "test/support/config.h"
#include "test/support/error.h"
#include "test/support/folder.h"
#include "test/support/image_files.h"

namespace bv::test {
namespace {

// An image folder that has the class folders `names`, each with one image.
struct ClassFolders : TempFolder {
  explicit ClassFolders(const Names& names) {
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

std::vector<float> label_vector(const Dataset& data, int64_t index) {
  const at::Tensor labels = data.read(index).at("labels");
  REQUIRE(labels.scalar_type() == at::kFloat);
  const float* begin = labels.const_data_ptr<float>();
  return {begin, begin + labels.numel()};
}

}  // namespace

TEST_CASE("a folder has several labels in its name", "[image_folder]") {
  const ClassFolders folder({"blue_dress", "blue_shirt", "red_dress", "shoe"});
  const auto data = folder.open("separator: _\n");
  CHECK(data->source().class_names() == Names{"blue", "dress", "red", "shirt", "shoe"});
  CHECK(label_vector(*data, 0) == std::vector<float>{1, 1, 0, 0, 0});
  CHECK(label_vector(*data, 1) == std::vector<float>{1, 0, 0, 1, 0});
  CHECK(label_vector(*data, 2) == std::vector<float>{0, 1, 1, 0, 0});
  CHECK(label_vector(*data, 3) == std::vector<float>{0, 0, 0, 0, 1});
  CHECK(!data->read(0).contains("label"));
  CHECK(!data->source().labels(0).defined());
}

TEST_CASE("the classes of several labels are those of all splits", "[image_folder]") {
  const ClassFolders folder({"train/red_dress", "train/blue", "val/blue_shirt"});
  const auto data = folder.open("separator: _\nsplit: val\n");
  CHECK(data->source().class_names() == Names{"blue", "dress", "red", "shirt"});
  CHECK(label_vector(*data, 0) == std::vector<float>{1, 0, 0, 1});
}

TEST_CASE("the name of a folder is a number", "[image_folder]") {
  const ClassFolders folder({"1", "100", "25.5", "007", "-3"});
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
  const ClassFolders folder({"1.5x-2", "0x00"});
  const auto data = folder.open("label: number\nseparator: x\n");
  CHECK(label_vector(*data, 0) == std::vector<float>{0, 0});
  CHECK(label_vector(*data, 1) == std::vector<float>{1.5, -2});
}

TEST_CASE("names of folders that do not fit the keys", "[image_folder]") {
  const ClassFolders folder({"blue_dress", "shoe"});
  CHECK(folder.problem("separator: ''\n") == "t.yaml:3:12: error: separator: is empty");
  CHECK(folder.problem("label: number\n") ==
        "t.yaml:3:8: error: label: number, but the folder name 'blue_dress' is not a number; if a "
        "name holds several numbers, set `separator` to the text between them");
  CHECK(ClassFolders({"1e40"}).problem("label: number\n") ==
        "t.yaml:3:8: error: label: number, but the folder name '1e40' is too large for float32");
  CHECK(ClassFolders({"1", ".5"}).problem("label: number\n") ==
        "t.yaml:3:8: error: label: number, but the folder '.5' is hidden; call it '0.5'");
  CHECK(folder.problem("label: number\nseparator: _\n") ==
        "t.yaml:3:8: error: label: number, but 'blue' in the folder name 'blue_dress' is not a "
        "number; if a name holds several numbers, set `separator` to the text between them");
  CHECK(folder.problem("label: name\n").starts_with("t.yaml:3:8: error: "));
  CHECK(ClassFolders({"a__b"}).problem("separator: _\n") ==
        "t.yaml:3:12: error: separator: the folder 'a__b' has an empty label");
  CHECK(ClassFolders({"a_b", "c_"}).problem("separator: _\n") ==
        "t.yaml:3:12: error: separator: the folder 'c_' has an empty label");
  CHECK(
      ClassFolders({"1_2", "3"}).problem("label: number\nseparator: _\n") ==
      "t.yaml:4:12: error: separator: all folders need the same count of numbers, but '1_2' has 2 "
      "and '3' has 1");
}

TEST_CASE("classes are numbered in the order of a list", "[image_folder]") {
  const ClassFolders folder({"train/Zebra", "train/cat10", "val/Zebra", "val/cat2"});
  // timm's order.
  const auto data = folder.open("split: val\nclasses: [cat2, cat10, Zebra]\n");
  CHECK(data->source().class_names() == Names{"cat2", "cat10", "Zebra"});
  CHECK(data->read(0).at("label").item<int64_t>() == 2);  // files are in the order of the names
  CHECK(data->read(1).at("label").item<int64_t>() == 0);
  CHECK(data->source().labels(1).equal(at::tensor({2, 0})));
  const ClassFolders names({"blue_dress", "shoe"});
  const auto several = names.open("separator: _\nclasses: [shoe, dress, blue]\n");
  CHECK(label_vector(*several, 0) == std::vector<float>{0, 1, 1});

  CHECK(folder.problem("classes: [cat2, Zebra]\n") ==
        "t.yaml:3:10: error: classes: does not list these names from the folders: 'cat10'");
  CHECK(folder.problem("classes: [cat2, cat, Zebra]\n") ==
        "t.yaml:3:10: error: classes: does not list these names from the folders: 'cat10'; lists "
        "names that no folder has: 'cat'");
  CHECK(folder.problem("classes: [cat2, cat10, Zebra, cat2]\n") ==
        "t.yaml:3:10: error: classes: has 'cat2' twice");
  CHECK(folder.problem("label: number\nclasses: [cat2]\n") ==
        "t.yaml:4:10: error: classes: is for classes, but `label` says that names are numbers");
  const ClassFolders numbers({"0", "2", "10"});
  CHECK(numbers.problem("classes: [0, 10, 2]\n") ==
        "t.yaml:3:10: error: classes: lists only integers, including 0, so each name is itself the "
        "class number, and the list cannot change the order; leave `classes` out");
}

TEST_CASE("a list beside the class folders is not read, and that is said", "[image_folder]") {
  const ClassFolders folder({"cat", "dog"});
  const auto remarks = [&] { return folder.open("")->source().file_notes(0).remarks; };
  CHECK(remarks().empty());
  folder.write("metadata.csv", "file_name,age\ncat/1.jpg,3\ndog/1.jpg,4\n");
  const std::string rest = " is not read: the labels come from the folder names. The source ";
  CHECK(remarks() == Names{(folder / "metadata.csv") + rest + "csv reads such lists"});
  std::filesystem::remove(folder / "metadata.csv");
  folder.write("metadata.jsonl", "{}\n");
  CHECK(remarks() == Names{(folder / "metadata.jsonl") + rest + "jsonl reads such lists"});

  const ClassFolders splits({"train/cat", "val/cat"});
  splits.write("metadata.csv", "");
  splits.write("val/metadata.csv", "");
  const auto of_val = splits.open("split: val\n")->source().file_notes(1).remarks;
  CHECK(of_val == Names{(splits / "val/metadata.csv") + rest + "csv reads such lists",
                        (splits / "metadata.csv") + rest + "csv reads such lists"});
}

TEST_CASE("names without the separator are one label each, and that is said", "[image_folder]") {
  const ClassFolders folder({"blue", "red"});
  const auto data = folder.open("separator: _\n");
  CHECK(label_vector(*data, 1) == std::vector<float>{0, 1});
  CHECK(data->source().file_notes(0).remarks ==
        Names{folder.path() +
              ": no folder name contains the separator '_', so each image has one label"});
}

TEST_CASE("generated examples have the labels of the keys", "[image_folder]") {
  const auto first = [](const std::string& keys) {
    const auto open = [](const Config& config) {
      return prepare_data(config, {{.seed = 1, .num_classes = 3}, /*synthetic=*/true});
    };
    return from_yaml("name: image_folder\ndata_dir: none\n" + keys, open)(std::nullopt)->read(2);
  };
  CHECK(first("").at("label").scalar_type() == at::kLong);
  CHECK(first("label: number\n").at("label").scalar_type() == at::kFloat);
  CHECK(first("label: number\n").at("label").dim() == 0);
  const at::Tensor several = first("separator: _\n").at("labels");
  CHECK(several.equal(at::tensor({0.0F, 0.0F, 1.0F})));
  const at::Tensor numbers = first("label: number\nseparator: _\n").at("labels");
  CHECK(numbers.equal(at::tensor({2.0F, 2.0F, 2.0F})));
}

}  // namespace bv::test
