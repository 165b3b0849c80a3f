// Examples that are known to be broken, which skip_errors keeps, belong to no class.
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <map>
#include <set>

#include "lib/input/sources/common/label_order.h"
#include "test/input/csv_support.h"
#include "test/input/fake_source.h"

namespace bv::test {
namespace {

constexpr int64_t kNo = Source::kNoLabel;
using Counts = std::map<int64_t, int64_t>;

// The labels of the examples are given. Those with kNo cannot be read.
class PartlyLabelled : public FakeSource {
 public:
  explicit PartlyLabelled(Labels labels, std::vector<std::string> names = {})
      : FakeSource(std::ssize(labels)), labels_(std::move(labels)), names_(std::move(names)) {
    on_read = [this](int64_t index) {
      if (labels_.at(index) == kNo) throw Error::bare(Exit::data, "truncated JPEG");
    };
  }
  at::Tensor labels(size_t) const override { return at::tensor(labels_, at::kLong); }
  std::vector<std::string> class_names() const override { return names_; }

 private:
  const Labels labels_;
  const std::vector<std::string> names_;
};

Dataset partly_labelled_slice(const Labels& labels, const std::string& split,
                              const std::vector<std::string>& names = {}) {
  return Dataset(std::make_shared<PartlyLabelled>(labels, names), split, Place{});
}

}  // namespace

TEST_CASE("csv: rows without a label do not count as examples of a class", "[csv]") {
  const CsvFolder folder;
  for (const auto& [first, second] : {std::pair<std::string, std::string>("ant", "bee"),
                                      std::pair<std::string, std::string>("4", "7")}) {
    std::string text = "image,label\n";
    for (int i = 0; i < 30; ++i)
      text += fmt::format("images/a.jpg,{}\nimages/b.jpg,{}\n", first, second);
    for (int i = 0; i < 240; ++i) text += "images/c.jpg,\n";
    const auto data = folder.data(text, "", tolerant());
    const int64_t least = first == "4" ? 4 : 0, most = first == "4" ? 7 : 1;
    CHECK(data->size() == 300);
    CHECK(data->label_counts() == Counts{{least, 30}, {most, 30}});
    CHECK(data->labels_of_splits() == std::set<int64_t>{least, most});
    CHECK(data->labels().back() == kNo);
    CHECK(data->label_bounds() == std::vector<std::pair<int64_t, int64_t>>{{0, least}, {1, most}});
  }
}

TEST_CASE("csv and jsonl: broken rows do not hide that the others are sorted by class",
          "[csv][jsonl]") {
  const CsvFolder folder;
  std::string csv = "image,label\n", jsonl;
  for (int i = 0; i < 40; ++i) {
    csv += fmt::format("images/a.jpg,{}\n{}", i / 10, i == 35 ? "images/a.jpg,\n" : "");
    jsonl += fmt::format("{{\"label\": {}}}\n{}", i / 10, i == 35 ? "x\n" : "");
  }
  const auto of_csv = folder.data(csv, "", tolerant());
  const auto of_jsonl = folder.open_file(folder.write("t.jsonl", jsonl), "", tolerant());
  for (const auto& data : {of_csv, of_jsonl}) {
    CHECK(data->size() == 41);
    CHECK(data->source().sorted_by_class(0));
    CHECK(data->label_counts() == Counts{{0, 10}, {1, 10}, {2, 10}, {3, 10}});
  }
}

TEST_CASE("csv and jsonl: the stored index knows which rows have no label", "[csv][jsonl]") {
  const CsvFolder folder;
  const std::string csv =
      folder.write("t.csv", "image,label\nimages/a.jpg,cat\nimages/b.jpg,\nimages/c.jpg,dog\n");
  const std::string jsonl = folder.write("t.jsonl", "{\"label\": 0}\nx\n{\"label\": 1}\n");
  for (const std::string& file : {csv, jsonl}) {
    folder.age_file(file);
    for (int i = 0; i < 2; ++i)
      CHECK(folder.open_file(file, "", tolerant())->labels() == Labels{0, kNo, 1});
  }
  const std::string index = folder.cache / "bvtrain/index";
  CHECK(std::distance(std::filesystem::directory_iterator(index), {}) == 2);
}

TEST_CASE("csv and jsonl: a row without a split is broken, and fails when it is read",
          "[csv][jsonl]") {
  const CsvFolder folder;
  const std::string rest = "split_column: part\nsplit: x\n";
  const auto csv =
      folder.data("image,label,part\nimages/a.jpg,0,x\nimages/b.jpg,1,\n", rest, tolerant());
  CHECK(csv->labels() == Labels{0, kNo});
  CHECK(folder.local(error_of([&] { csv->read(1); }, Exit::data)) ==
        "t.csv:3: error: the split is empty (column 16)");
  const std::string rows = "{\"label\": 0, \"part\": \"x\"}\n{\"label\": 1, \"part\": \"\"}\n";
  const auto jsonl = folder.open_file(folder.write("t.jsonl", rows), rest, tolerant());
  CHECK(jsonl->labels() == Labels{0, kNo});
  CHECK_THAT(error_of([&] { jsonl->read(1); }, Exit::data),
             Catch::Contains("t.jsonl:2: error: 'part' must be the name of a split"));
}

TEST_CASE("csv and jsonl: a row whose label is broken stays in its split", "[csv][jsonl]") {
  const CsvFolder folder;
  const std::string rest = "split_column: part\nsplit: ";
  const std::string csv = folder.write("t.csv",
                                       "image,label,part\nimages/a.jpg,0,x\nimages/b.jpg,,y\n"
                                       "images/c.jpg,1,x\nimages/d.jpg,1,y\n");
  CHECK(folder.open_file(csv, rest + "x\n", tolerant())->labels() == Labels{0, 1});
  CHECK(folder.open_file(csv, rest + "y\n", tolerant())->labels() == Labels{kNo, 1});
  const std::string jsonl =
      folder.write("t.jsonl",
                   "{\"label\": 0, \"part\": \"x\"}\n{\"label\": \"a\", \"part\": \"y\"}\n"
                   "{\"label\": 1, \"part\": \"x\"}\n{\"label\": 1, \"part\": \"y\"}\n");
  CHECK(folder.open_file(jsonl, rest + "x\n", tolerant())->labels() == Labels{0, 1});
  CHECK(folder.open_file(jsonl, rest + "y\n", tolerant())->labels() == Labels{kNo, 1});
}

TEST_CASE("csv and jsonl: broken rows of other splits are no error", "[csv][jsonl]") {
  const CsvFolder folder;
  const std::string rest = "split_column: part\nsplit: ";
  const std::string csv =
      folder.write("t.csv",
                   "image,label,part\nimages/a.jpg,0,train\nimages/b.jpg,,test\n"
                   "images/c.jpg,1,train\nimages/none.jpg,,test\n");
  folder.age_file(csv);
  for (int i = 0; i < 2; ++i) {  // the second time, an index could be stored
    CHECK(folder.open_file(csv, rest + "train\n")->labels() == Labels{0, 1});
    CHECK(folder.local(error_of([&] { folder.open_file(csv, rest + "test\n"); })) ==
          "t.csv:3:14: error: the label is empty\nt.csv:5:17: error: the label is empty");
  }
  const std::string jsonl = folder.write(
      "t.jsonl", "{\"label\": 0, \"part\": \"x\"}\n{\"label\": \"a\", \"part\": \"y\"}\n");
  CHECK(folder.open_file(jsonl, rest + "x\n")->labels() == Labels{0});
  CHECK_THAT(error_of([&] { folder.open_file(jsonl, rest + "y\n"); }),
             Catch::Contains("t.jsonl:2:"));
  // The image of the last row of another split.
  const std::string missing =
      folder.write("m.csv", "image,label,part\nimages/a.jpg,0,train\nimages/none.jpg,1,test\n");
  CHECK(folder.open_file(missing, rest + "train\n")->labels() == Labels{0});
  CHECK_THAT(error_of([&] { folder.open_file(missing, rest + "test\n"); }),
             Catch::Contains("images/none.jpg'; paths are relative to"));
  // The split of a row is not known.
  const std::string unknown =
      folder.write("u.csv", "image,label,part\nimages/a.jpg,0,train\nimages/b.jpg,1,\n");
  CHECK_THAT(error_of([&] { folder.open_file(unknown, rest + "train\n"); }),
             Catch::Contains("the split is empty"));
}

TEST_CASE("image_folder: a class folder without images has no example of its class",
          "[image_folder]") {
  const ManifestFolder folder;
  folder.write("classes/cat/1.jpg", flat_jpeg(100));
  folder.make("classes/dog");
  folder.write("classes/elk/1.jpg", flat_jpeg(100));
  const auto data = from_yaml(
      "name: image_folder\ndata_dir: " + (folder / "classes"),
      [](const Config& config) { return prepare_data(config, tolerant()); })(std::nullopt);
  CHECK(data->class_names().size() == 3);
  CHECK(data->labels() == Labels{0, kNo, 2});
  CHECK(data->label_counts() == Counts{{0, 1}, {2, 1}});
}

TEST_CASE("labels are in order of the classes whatever stands between them has no label") {
  const auto in_order = [](const Labels& labels) {
    return in_order_of_classes(at::tensor(labels, at::kLong));
  };
  CHECK(in_order({kNo, 0, kNo, 0, 1, kNo}));
  CHECK_FALSE(in_order({0, kNo, 1, 0}));
  CHECK_FALSE(in_order({kNo, 3, 3}));       // one class
  CHECK_FALSE(in_order({kNo, kNo, 1, 2}));  // no class has several examples
  CHECK_FALSE(in_order({kNo, kNo}));
  CHECK_FALSE(in_order_of_classes({}));
}

TEST_CASE("what is said of a data set's labels leaves out examples without one") {
  const Labels labels = {kNo, 2, 0, kNo, 1, 2, kNo, 0};
  const Dataset whole = partly_labelled_slice(labels, "train");
  CHECK(whole.labels() == labels);
  CHECK(whole.label_counts() == Counts{{0, 2}, {1, 1}, {2, 2}});
  CHECK(whole.labels_of_splits() == std::set<int64_t>{0, 1, 2});
  CHECK(whole.label_bounds() == std::vector<std::pair<int64_t, int64_t>>{{2, 0}, {1, 2}});
  Dataset part = partly_labelled_slice(labels, "train[3:6]");
  CHECK(part.missing_classes() == "split 'train[3:6]' has no example of 1 of the 3 classes: 0");
  CHECK(part.label_bounds() == std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {2, 2}});
  const Labels first = {0};
  part.leave_out(first);
  CHECK(part.labels() == Labels{1, 2});
  CHECK(partly_labelled_slice({kNo, kNo}, "train").label_counts().empty());
  CHECK(partly_labelled_slice({kNo, kNo}, "train").label_bounds().empty());
  CHECK(partly_labelled_slice({kNo, 1}, "train").fingerprint() !=
        partly_labelled_slice({0, 1}, "train").fingerprint());
}

TEST_CASE("folds have equal shares of the examples without a label, too", "[split]") {
  Labels labels;
  for (int i = 0; i < 4; ++i) labels.insert(labels.end(), {1, kNo, 0});
  for (int fold = 1; fold <= 4; ++fold) {
    Labels held = partly_labelled_slice(labels, fmt::format("train[fold {}/4]", fold)).labels();
    std::sort(held.begin(), held.end());
    CHECK(held == Labels{kNo, 0, 1});
  }
}

TEST_CASE("examples without a label stay when classes are matched by name") {
  const std::vector<std::string> own = {"bus", "cat", "ship"};
  const ClassNames animals{{"cat", "dog"}, "the training data"}, none{{"tree"}, "`train`"};
  Dataset fits = partly_labelled_slice({1, kNo, 1}, "train", own);
  CHECK(fits.use_classes(animals, false).empty());
  CHECK(fits.labels() == Labels{0, kNo, 0});
  CHECK(fits.label_counts() == Counts{{0, 2}});

  Dataset skips = partly_labelled_slice({0, kNo, 1, 2}, "train", own);
  CHECK(skips.use_classes(animals, true) ==
        "2 of 4 examples are left out, because the training data has no class bus, ship");
  CHECK(skips.labels() == Labels{kNo, 0});
  CHECK(skips.label_bounds() == std::vector<std::pair<int64_t, int64_t>>{{1, 0}, {1, 0}});
  CHECK(skips.fingerprint() != 0);
  CHECK(error_of([&] { skips.read(0); }, Exit::data) == "truncated JPEG");

  Dataset lost = partly_labelled_slice({0, kNo}, "train", own);
  CHECK(error_of([&] { lost.use_classes(none, true); }) ==
        "error: has examples of bus, but the classes of `train` are tree: no example is left");
}

TEST_CASE("an example without a label stays so when its classes are matched by name") {
  const std::vector<std::string> names = {"cat", "dog"};
  const auto source = std::make_shared<PartlyLabelled>(Labels{0, 1}, names);
  source->transform = [](int64_t index, Example& example) {
    if (index == 1) example["label"] = at::scalar_tensor(kNo, at::kLong);
  };
  Dataset data(source, "train", Place{});
  data.use_classes({{"dog", "cat"}}, /*skip_unknown=*/false);
  CHECK(data.read(0).at("label").item<int64_t>() == 1);
  CHECK(data.read(1).at("label").item<int64_t>() == kNo);
}

}  // namespace bv::test
