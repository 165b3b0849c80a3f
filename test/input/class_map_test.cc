// Labels are matched by class name: ClassMap, and data sets that use one.
#include "lib/input/class_map.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <numeric>
#include <set>

#include "lib/ckpt/formats/npz.h"
#include "lib/input/data_notes.h"
#include "lib/input/image/jpeg.h"
#include "lib/input/loader/check_examples.h"
#include "lib/input/prepare_data.h"
#include "test/input/fake_source.h"
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
  CHECK(error_of([&] { map(3); }) ==
        "error: the label is 3, but the data has names for only 3 classes");
  CHECK(error_of([&] { map(-1); }) ==
        "error: the label is -1, but the data has names for only 3 classes");
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

TEST_CASE("each label of a list is the class of this name, if all of them are names of classes") {
  const TempFolder folder;
  write_classes(folder, {"d"}, 1);
  Names notes;
  const auto labels = [&](const std::string& kind, const std::vector<int>& numbers,
                          const Names& run) {
    std::string text = kind == "csv" ? "image,label\n" : "";
    for (const int number : numbers) {
      text += kind == "csv" ? fmt::format("d/0.jpg,{}\n", number)
                            : fmt::format("{{\"image\": \"d/0.jpg\", \"label\": {}}}\n", number);
    }
    const std::string file = folder.write("a." + kind, text);
    const Config config = parse_config("{name: " + kind + ", fname: " + file + "}", "t.yaml");
    const auto data = prepare_data(config, {})(ClassNames{run});
    notes = warnings(config);
    return data->labels();
  };
  const Names mixed = {"0", "1", "10", "2", "other"}, from_one = {"1", "10", "2", "3"};
  for (const std::string kind : {"csv", "jsonl"}) {
    INFO(kind);
    CHECK(labels(kind, {2, 10, 0}, mixed) == std::vector<int64_t>{3, 2, 0});
    CHECK(notes.empty());
    CHECK(labels(kind, {1, 2, 10}, from_one) == std::vector<int64_t>{0, 2, 1});
    CHECK(notes.empty());
    CHECK(labels(kind, {2, 10, 0}, {"0", "1", "10", "2"}) == std::vector<int64_t>{3, 2, 0});
    CHECK(notes.empty());
    // The labels could be numbers of classes, too.
    CHECK(labels(kind, {1, 2}, from_one) == std::vector<int64_t>{0, 2});
    CHECK(notes ==
          Names{"t.yaml: warning: has no class names, but each label is the name of a class of the "
                "training data and is taken as that name, not as the number of a class"});
    CHECK(labels(kind, {2, 0}, mixed) == std::vector<int64_t>{3, 0});
    CHECK(notes.size() == 1);
    CHECK(labels(kind, {0, 1}, mixed) == std::vector<int64_t>{0, 1});  // both readings agree
    CHECK(notes.empty());
    // 3 and -1 are no names, so all labels are numbers.
    const Names compared = {
        "t.yaml: warning: has no class names, but the training data has: labels are compared by "
        "number, so label 2 means the class '10'"};
    CHECK(labels(kind, {2, 3}, mixed) == std::vector<int64_t>{2, 3});
    CHECK(notes == compared);
    CHECK(labels(kind, {2, -1}, mixed) == std::vector<int64_t>{2, -1});
    CHECK(notes == compared);
  }
  // The labels of arrays are numbers.
  write_npz(folder / "a.npz", {{"image", at::zeros({2, 4, 4, 3}, at::kByte)},
                               {"label", at::tensor({0, 2}, at::kLong)}});
  const Config config = parse_config("{name: npz, fname: " + folder / "a.npz" + "}", "t.yaml");
  CHECK(prepare_data(config, {})(ClassNames{mixed})->labels() == std::vector<int64_t>{0, 2});
  CHECK(warnings(config).size() == 1);
}

TEST_CASE("columns of labels without names are matched with names that are numbers") {
  const TempFolder folder;
  const auto labels_of = [&](const Names& run, const at::Tensor& labels) {
    const int64_t n = labels.size(0);
    write_npz(folder / "a.npz", {{"image", at::zeros({n, 4, 4, 3}, at::kByte)},
                                 {"label", at::zeros({n}, at::kLong)},
                                 {"labels", labels}});
    const Config config = parse_config("{name: npz, fname: " + folder / "a.npz" + "}", "t.yaml");
    const auto data = prepare_data(config, {})(ClassNames{run});
    std::vector<int64_t> all(n);
    std::iota(all.begin(), all.end(), 0);
    return data->read_batch(all).at("labels");
  };
  const Names twelve = {"0", "1", "10", "11", "2", "3", "4", "5", "6", "7", "8", "9"};
  const at::Tensor number = at::tensor({0, 1, 4, 5, 6, 7, 8, 9, 10, 11, 2, 3}, at::kLong);
  CHECK(labels_of(twelve, at::eye(12)).equal(at::one_hot(number, 12).to(at::kFloat)));
  // The numbers 3 to 9 have no class.
  const Names gaps = {"0", "1", "10", "2"};
  const at::Tensor mapped = labels_of(gaps, at::eye(11));
  CHECK(mapped.sizes() == at::IntArrayRef({11, 4}));
  CHECK(mapped.argmax(1)[10].item<int64_t>() == 2);
  CHECK(mapped.argmax(1)[2].item<int64_t>() == 3);
  CHECK(mapped.slice(0, 3, 10).count_nonzero().item<int64_t>() == 0);
  // Not one column for each number.
  CHECK(labels_of(gaps, at::eye(4)).equal(at::eye(4)));
}

TEST_CASE("a number above the names that are numbers is an unknown class") {
  const TempFolder folder;
  const Names run = {"0", "1", "10", "11", "2"};
  write_classes(folder, {"d"}, 1);
  const std::string file =
      folder.write("a.csv", "image,label\nd/0.jpg,2\nd/0.jpg,5\nd/0.jpg,12\nd/0.jpg,11\n");
  const auto open_list = [&](const std::string& more) {
    return from_yaml("{name: csv, fname: " + file + more + "}", [&](const Config& config) {
      return prepare_data(config, {})(ClassNames{run});
    });
  };
  const auto data = open_list(", unknown_classes: skip");
  CHECK(data->labels() == std::vector<int64_t>{4, 3});
  CHECK(data->labels_of_splits() == std::set<int64_t>{3, 4});
  CHECK(error_of([&] { open_list(""); }) ==
        "t.yaml: error: has examples of 5, 12, but the classes of the training data are 0, 1, 10, "
        "11, 2; `unknown_classes: skip` leaves these examples out");
}

TEST_CASE("a number that is an unknown class is an error if it is known only when it is read") {
  const auto source = std::make_shared<FakeSource>(13);  // the labels are 0 to 12
  Dataset data(source, "train", Place{});
  const Names run = {"0", "1", "10", "11", "2", "3", "4", "5", "6", "7", "8", "9"};
  CHECK(data.use_classes({run}, /*skip_unknown=*/true).empty());
  CHECK(data.read(11).at("label").item<int64_t>() == 3);
  CHECK(error_of([&] { data.read(12); }) ==
        "error: the label is 12, but the run has no such class");
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

TEST_CASE("a label out of range is named by the run's class of this number") {
  const TempFolder folder;
  write_classes(folder, {"cat", "ship"}, 1);
  const auto data = open(folder, {{"dog", "cat", "ship"}});
  const auto pp = pipeline("decode|onehot(1, key='label', key_result='labels')");
  CHECK(error_of([&] { compute_first_example(*data, *pp, 1, 0); }) ==
        "error: cat/0.jpg: onehot: 'label' is 1, must be within 0 .. 0 (class 'cat')");
}

TEST_CASE("a class that training never has is compared only with names in other case") {
  const TempFolder folder;
  write_classes(folder, {"0", "1", "3"}, 1);
  const auto data = open(folder, {{"0", "1", "3"}});
  // Label 3 of the training data has no name, so it is shown as its number.
  CHECK(contains(untrained_classes(*data, {0, 1, 3}), "so the model cannot learn them: 3; add"));
}

}  // namespace bv::test
