// Labels are matched by class name: ClassMap, and data sets that use one.
#include "lib/input/class_map.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "lib/input/image/jpeg.h"
#include "lib/input/prepare_data.h"
#include "test/input/lists.h"
#include "test/support/config.h"
#include "test/support/error.h"
#include "test/support/folder.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

const ClassNames kAnimals{{"cat", "dog", "ship"}, "the training data"};

// Writes an image folder with `count` images in each of these classes.
void write_classes(const TempFolder& folder, const Names& names, int count) {
  const at::Tensor bytes = encode_jpeg(at::full({4, 4, 3}, 7, at::kByte), 90);
  const std::string jpeg(reinterpret_cast<const char*>(bytes.const_data_ptr<uint8_t>()),
                         bytes.numel());
  for (const std::string& name : names) {
    for (int i = 0; i < count; ++i) folder.write(fmt::format("{}/{}.jpg", name, i), jpeg);
  }
}

// Opens the folder with the classes of the run. Warnings go to `notes`.
std::shared_ptr<const Dataset> open(const TempFolder& folder, const ClassNames& classes,
                                    const std::string& keys = "", Names* notes = nullptr) {
  const Config config =
      parse_config("{name: image_folder, data_dir: " + folder.path() + keys + "}", "t.yaml");
  auto data = prepare_data(config, {})(classes);
  if (notes) *notes = warnings(config);
  return data;
}

std::vector<int64_t> mapped_labels(const Dataset& data) {
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < data.size(); ++i)
    labels.push_back(data.read(i).at("label").item<int64_t>());
  return labels;
}

}  // namespace

TEST_CASE("ClassMap matches classes by name") {
  const ClassMap map({"ship", "cat", "plane"}, kAnimals);
  CHECK(map(0) == 2);
  CHECK(map(1) == 0);
  CHECK(map(2) == ClassMap::kUnknown);
  CHECK(error_of([&] { map(3); }) == "error: the label is 3, but the data names only 3 classes");
  CHECK(error_of([&] { map(-1); }) == "error: the label is -1, but the data names only 3 classes");
}

TEST_CASE("ClassMap keeps every number if the names are equal, or one side has none") {
  CHECK(ClassMap(kAnimals.names, kAnimals).keeps_all());
  CHECK(ClassMap({}, kAnimals).keeps_all());
  CHECK(ClassMap({"ship"}, ClassNames{}).keeps_all());
  CHECK(ClassMap({}, kAnimals)(7) == 7);
}

TEST_CASE("a class name that occurs twice is matched by its place, or refused") {
  const ClassNames cranes{{"crane", "bird", "crane"}, "the training data"};
  const ClassMap longer({"crane", "bird", "crane", "fish"}, cranes);
  CHECK(longer(0) == 0);
  CHECK(longer(2) == 2);
  CHECK(longer(3) == ClassMap::kUnknown);
  CHECK(error_of([&] {
          ClassMap({"bird", "crane"}, cranes);
        }) ==
        "error: the class name 'crane' stands for several classes, so the labels cannot be matched "
        "with those of the training data");
  CHECK(error_of([] {
          ClassMap({"dog", "dog"}, kAnimals);
        }) ==
        "error: the class name 'dog' stands for several classes, so the labels cannot be matched "
        "with those of the training data");
}

TEST_CASE("a data set has the run's class numbers, one by one and in batches") {
  const TempFolder folder;
  write_classes(folder, {"cat", "ship"}, 2);
  Names notes;
  const auto data = open(folder, kAnimals, "", &notes);
  CHECK(mapped_labels(*data) == std::vector<int64_t>{0, 0, 2, 2});
  const std::vector<int64_t> all = {3, 0};
  CHECK(data->read_batch(all).at("label").equal(at::tensor({2, 0}, at::kLong)));
  CHECK(data->class_names() == kAnimals.names);
  CHECK(data->label_bounds() == std::vector<std::pair<int64_t, int64_t>>{{0, 0}, {2, 2}});
  CHECK(notes.empty());
}

TEST_CASE("classes that the run does not have are an error, or are left out") {
  const TempFolder folder;
  write_classes(folder, {"bus", "cat", "ship"}, 2);
  CHECK(error_of([&] { open(folder, kAnimals); }) ==
        "t.yaml: error: has examples of bus, but the classes of the training data are cat, "
        "dog, ship; `unknown_classes: skip` leaves these examples out");
  Names notes;
  const auto data = open(folder, kAnimals, ", unknown_classes: skip", &notes);
  CHECK(mapped_labels(*data) == std::vector<int64_t>{0, 0, 2, 2});
  CHECK(data->describe(3) == "ship/1.jpg");
  CHECK(notes == Names{"t.yaml: warning: 2 of 6 examples are left out, because the training "
                       "data has no class bus"});
  CHECK(error_of([&] {
          open(folder, {{"tree"}, "`train`"}, ", unknown_classes: skip");
        }) ==
        "t.yaml: error: has examples of bus, cat, ship, but the classes of `train` are tree: "
        "no example is left");
}

TEST_CASE("unknown_classes: skip is advised only where it works") {
  const TempFolder folder;
  write_classes(folder, {"bus", "cat"}, 1);
  CHECK(error_of([&] {
          open(folder, {{"tree"}, "`train`"});
        }) == "t.yaml: error: has examples of bus, cat, but the classes of `train` are tree");
  // Images with several labels.
  const std::string begin =
      "t.yaml: error: has examples of bus, but the classes of the training data are cat, dog, ship";
  CHECK(error_of([&] { open(folder, kAnimals, ", separator: _"); }) == begin);
  CHECK(error_of([&] { open(folder, kAnimals, ", separator: _, unknown_classes: skip"); }) ==
        begin +
            " (`unknown_classes: skip` needs one label per example that is known before it is "
            "read)");
}

TEST_CASE("labels are compared by number, with a warning, if one side has no names") {
  const TempFolder folder;
  write_classes(folder, {"cat", "ship"}, 1);
  Names notes;
  CHECK(mapped_labels(*open(folder, ClassNames{}, "", &notes)) == std::vector<int64_t>{0, 1});
  CHECK(notes == Names{"t.yaml: warning: has class names, but the training data has none: "
                       "labels are compared by number (0 is 'cat')"});
}

TEST_CASE("names_by_number puts names that are numbers in their order") {
  CHECK(names_by_number({"0", "1", "10", "2"}) ==
        Names{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"});
  CHECK(names_by_number({"00", "01", "02"}) == Names{"00", "01", "02"});
  CHECK(names_by_number({"1", "2"}).empty());   // from 1 on: label 0 may be meant by '1'
  CHECK(names_by_number({"0", "00"}).empty());  // one number twice
  CHECK(names_by_number({"0", "cat"}).empty());
  CHECK(names_by_number({"0", "20261125"}).empty());  // a date
  CHECK(names_by_number({}).empty());
}

TEST_CASE("class names that are numbers match labels without names by their number") {
  const TempFolder folder;
  const Names sorted = {"0", "1", "10", "11", "2", "3", "4", "5", "6", "7", "8", "9"};
  write_classes(folder, sorted, 1);
  Names notes;
  const auto named = open(folder, ClassNames{}, "", &notes);
  CHECK(mapped_labels(*named) == std::vector<int64_t>{0, 1, 10, 11, 2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(named->class_names()[10] == "10");
  CHECK(notes == Names{"t.yaml: warning: has class names, but the training data has none: these "
                       "names are numbers, so label 2 is the class '2', wherever it is in the list "
                       "of classes"});

  const TempFolder list;
  write_classes(list, {"d"}, 1);
  list.write("a.csv", "image,label\nd/0.jpg,0\nd/0.jpg,2\nd/0.jpg,10\n");
  const Config config = parse_config("name: csv\nfname: " + list / "a.csv" + "\n", "t.yaml");
  const auto numbers = prepare_data(config, {})(ClassNames{sorted});
  CHECK(numbers->labels() == std::vector<int64_t>{0, 4, 2});
}

TEST_CASE("the fingerprint of a data set tells copies from other data") {
  const TempFolder first, copy, other;
  write_classes(first, {"cat", "ship"}, 2);
  write_classes(copy, {"cat", "ship"}, 2);
  write_classes(other, {"cat", "dog"}, 2);
  const auto fingerprint = [](const TempFolder& folder) {
    return open(folder, ClassNames{})->fingerprint();
  };
  CHECK(fingerprint(first) == fingerprint(copy));
  CHECK(fingerprint(first) != fingerprint(other));
}

}  // namespace bv::test
