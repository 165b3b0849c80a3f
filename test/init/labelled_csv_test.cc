// bvtrain init with --label and --task: what it finds in a CSV file, and the config for it.
#include "lib/init/labelled_csv.h"

#include <catch2/catch.hpp>

#include "lib/config/load_config.h"
#include "lib/init/init_report.h"
#include "lib/init/recipe_yaml.h"
#include "lib/init/starter_recipe.h"
#include "lib/util/text.h"
#include "test/init/data_folders.h"
#include "test/init/findings.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

constexpr int kRows = 60;

// A folder with images and CSV files that name them.
class ListFolder : public TempFolder {
 public:
  ListFolder() {
    for (int i = 0; i < kRows; ++i) write(image(i), plain_jpeg(20, 24, 3 * i));
  }

  static std::string image(int i) { return fmt::format("img/{}.jpg", i); }

  // Writes a CSV file with the column `image` and those of `header`. cells(i) is the text of row i
  // after the image.
  template <class Cells>
  void list(const std::string& header, const Cells& cells, const std::string& name = "list.csv",
            int first = 0, int end = kRows) const {
    std::string text = "image," + header + "\n";
    for (int i = first; i < end; ++i) text += fmt::format("{},{}\n", image(i), cells(i));
    write(name, text);
  }

  DataFindings find(const LabelRequest& request) const { return inspect_data(path(), request); }
  // Returns the message, without the folder before the file.
  std::string fault(const LabelRequest& request) const {
    return replace_all(error_of([&] { find(request); }), path() + "/", "");
  }
};

// Numbers from 20 to 79 in an order that looks random.
int age_of(int i) { return 20 + i * 37 % 60; }
std::string age_and_sex(int i) { return fmt::format("{},{}", age_of(i), i % 3 == 0 ? "m" : "f"); }

LabelRequest regress(const Lines& columns) {
  return {.columns = columns, .task = LabelTask::regress};
}
LabelRequest multilabel(const Lines& columns) {
  return {.columns = columns, .task = LabelTask::multilabel};
}

std::string yaml_of(const DataFindings& found) {
  return recipe_yaml(found, choose_recipe(found, nullptr), nullptr, "x.yaml");
}

Lines names_of(const DataFindings& found) {
  Lines names;
  for (const FoundClass& one : found.classes) names.push_back(one.name);
  return names;
}

}  // namespace

TEST_CASE("init --task regress: the targets, and a config that moves no pixel") {
  const ListFolder dir;
  dir.list("age,sex", age_and_sex);
  const DataFindings found = dir.find(regress({"age"}));
  CHECK(found.data.source == "csv");
  CHECK(found.train == "train[:80%]");
  CHECK(found.train_examples == 48);
  CHECK(found.classes.empty());
  CHECK(found.warnings.empty());
  CHECK(found.notes.empty());
  REQUIRE(found.targets.size() == 1);
  CHECK(found.targets[0].name == "age");
  CHECK(found.targets[0].least == 20);
  CHECK(found.targets[0].mean == Approx(49.5));
  CHECK(found.targets[0].most == 79);
  CHECK(contains(findings_text(found), "\ntargets     age: 20 to 79, mean 49.5\n"));
  const StarterRecipe recipe = choose_recipe(found, nullptr);
  const auto json = findings_json(found, recipe, "x.yaml");
  CHECK(json.at("task") == "regress");
  CHECK(json.at("targets").at(0).at("name") == "age");
  CHECK(json.at("targets").at(0).at("max") == 79);
  CHECK(json.at("classes").empty());

  const std::string yaml = yaml_of(found);
  const Config config = parse_config(yaml, "x.yaml");
  CHECK(config.get<int64_t>("num_classes") == 1);
  CHECK(config.get<std::string>("task") == "regress");
  CHECK(config.get<std::string>("loss") == "mse");
  CHECK_FALSE(config.has("label_smoothing"));
  const Config input = config.section("input"), val = config.section("evals").section("val");
  CHECK(input.section("data").get<Lines>("label") == Lines{"age"});
  CHECK(val.section("data").get<Lines>("label") == Lines{"age"});
  const std::string pp = R"(decode|value_range(-1, 1)|keep("image", "labels"))";
  CHECK(input.get<std::string>("pp") == pp);
  CHECK(val.get<std::string>("pp_fn") == pp);
  CHECK(val.get<std::string>("type") == "regression");
  CHECK_FALSE(val.has("loss_name"));
  CHECK(contains(yaml, "add flip_lr, and use inception_crop("));
}

TEST_CASE("init --task regress: several targets, the column label, and rows that are sorted") {
  const ListFolder dir;
  dir.list("x,body height", [](int i) { return fmt::format("{},{}", age_of(i), 0.1 * i); });
  DataFindings found = dir.find(regress({"x", "body height"}));
  REQUIRE(found.targets.size() == 2);
  CHECK(found.targets[1].most == 5.9);  // not the float32
  // The height only rises.
  CHECK(found.train == "train[not fold 1/5]");
  CHECK(found.validation == "train[fold 1/5]");
  const Config config = parse_config(yaml_of(found), "x.yaml");
  CHECK(config.get<int64_t>("num_classes") == 2);
  CHECK(config.section("input").section("data").get<Lines>("label") == Lines{"x", "body height"});

  dir.list("Label", [](int i) { return fmt::format("{}", 0.5 * age_of(i)); });
  found = dir.find(regress({}));
  CHECK(found.labels.columns == Lines{"Label"});
  CHECK(contains(yaml_of(found), ", label: [Label], "));

  dir.list("sex", [](int i) { return fmt::format("{}", i % 2); });
  CHECK(
      dir.find(regress({"sex"})).notes ==
      Lines{"target 'sex' is 0 or 1 in every row; if 1 means that an image has a class, use --task "
            "multilabel"});
}

TEST_CASE("init --task regress refuses cells that are no numbers, and constant targets") {
  const ListFolder dir;
  const auto with = [&](const std::string& cell) {
    dir.list("age", [&](int i) { return i == 5 ? cell : fmt::format("{}", age_of(i)); });
    return dir.fault(regress({"age"}));
  };
  CHECK(with("") == "list.csv:7:11: error: the label is empty");
  CHECK(with("old") == "list.csv:7:11: error: the label 'old' is not a finite number");
  CHECK(with("nan") == "list.csv:7:11: error: the label 'nan' is not a finite number");
  CHECK(with("True") ==
        "list.csv:7:11: error: the label 'True' is not a finite number: write 1 or 0");
  dir.list("age", [](int) { return "5"; });
  CHECK(dir.fault(regress({"age"})) ==
        "list.csv: error: target 'age' is constant (5) in all 48 training examples: there is "
        "nothing to learn, and it cannot be normalized");
  dir.list("age,sex", age_and_sex);
  CHECK(dir.fault(regress({"agee"})) ==
        "list.csv: error: no column 'agee' for `label` (did you mean 'age'?); columns: image, age, "
        "sex");
  CHECK(dir.fault(regress({})) ==
        "list.csv: error: has no column 'label'; its other columns are age, sex: choose with "
        "--label age; add --task regress if it holds numbers, or --task multilabel if an image may "
        "have several classes");
  CHECK(dir.fault(regress({"age", "age"})) == "--label: error: names 'age' twice");
  CHECK(contains(dir.fault(regress({"image"})), "the column 'image' cannot be `label` too"));
}

TEST_CASE("init --task multilabel: the classes in the cells, and the config") {
  const ListFolder dir;
  const char* const cells[] = {"cat;dog", "dog", "", "bird;cat"};
  dir.list("tags", [&](int i) { return cells[i % 4]; });
  const DataFindings found = dir.find(multilabel({"tags"}));
  CHECK(found.train == "train[:80%]");
  CHECK(names_of(found) == Lines{"bird", "cat", "dog"});
  CHECK(counts(found) == Counts{15, 30, 30});
  CHECK(found.without_class == 15);
  CHECK(found.warnings.empty());
  CHECK(found.notes.empty());
  const std::string text = findings_text(found);
  CHECK(contains(text, "3: bird 15, cat 30, dog 30\n"));
  CHECK(contains(text, "without any class: 15 of 60 images\n"));
  const Config config = parse_config(yaml_of(found), "x.yaml");
  CHECK(config.get<int64_t>("num_classes") == 3);
  CHECK(config.section("task_kw").get<bool>("multilabel"));
  CHECK(config.get<std::string>("loss") == "sigmoid_xent");
  CHECK_FALSE(config.has("label_smoothing"));
  const Config input = config.section("input"), val = config.section("evals").section("val");
  for (const Config& data : {input.section("data"), val.section("data")}) {
    CHECK(data.get<std::string>("label") == "tags");
    CHECK(data.get<bool>("multilabel"));
    CHECK(data.get<Lines>("classes") == Lines{"bird", "cat", "dog"});
  }
  CHECK(input.get<std::string>("pp").ends_with(R"(|value_range(-1, 1)|keep("image", "labels"))"));
  CHECK(val.get<std::string>("type") == "class_metrics");
  CHECK(val.get<Lines>("metrics") == Lines{"map", "auroc_macro", "f1_macro"});
}

TEST_CASE("init --task multilabel: all files have the same classes") {
  const ListFolder dir;
  dir.list(
      "tags", [](int i) { return i % 2 == 0 ? "cat;dog" : "dog"; }, "train.csv", 0, 40);
  dir.list(
      "tags", [](int i) { return i % 2 == 0 ? "cat" : "ship"; }, "val.csv", 40);
  DataFindings found = dir.find(multilabel({"tags"}));
  CHECK(found.labels.classes == Lines{"cat", "dog", "ship"});
  CHECK(counts(found) == Counts{20, 40, 0});
  CHECK(found.classes[2].validation == 10);
  const std::string warnings = join(found.warnings, "\n");
  CHECK(contains(warnings, "class 'ship' has no training images"));
  CHECK(contains(warnings, "class 'dog' has no validation images"));
  CHECK(contains(warnings, "every training image has the class 'dog'"));

  // Only the training file shows that names have spaces.
  dir.list(
      "tags", [](int i) { return i % 2 == 0 ? "polar bear;ice" : "ice;"; }, "train.csv", 0, 40);
  dir.list(
      "tags", [](int i) { return i % 2 == 0 ? "polar bear" : "ice"; }, "val.csv", 40);
  CHECK(dir.find(multilabel({"tags"})).labels.classes == Lines{"ice", "polar bear"});
  // Only the validation file shows it.
  dir.list(
      "tags", [](int i) { return i % 2 == 0 ? "polar bear" : "ice"; }, "train.csv", 0, 40);
  dir.list(
      "tags", [](int i) { return i % 2 == 0 ? "polar bear;ice" : "ice"; }, "val.csv", 40);
  CHECK(dir.find(multilabel({"tags"})).labels.classes == Lines{"ice", "polar bear"});
  // A name with a space is only in the validation file, with and without a `;` there.
  const Lines four = {"blue bird", "cat", "dog", "red car"};
  dir.list(
      "tags", [](int i) { return i % 2 == 0 ? "red car;dog" : "cat"; }, "train.csv", 0, 40);
  for (const char* other : {"red car;dog", "dog"}) {
    dir.list(
        "tags", [&](int i) { return i % 2 == 0 ? other : "blue bird"; }, "val.csv", 40);
    found = dir.find(multilabel({"tags"}));
    CHECK(found.labels.classes == four);
    CHECK(contains(join(found.warnings, "\n"), "class 'blue bird' has no training images"));
  }
  // Such a name is only in the training file, which has no `;`.
  dir.list(
      "tags", [](int i) { return i % 2 == 0 ? "blue bird" : "cat"; }, "train.csv", 0, 40);
  dir.list(
      "tags", [](int) { return "red car;dog"; }, "val.csv", 40);
  CHECK(dir.find(multilabel({"tags"})).labels.classes == four);
  // A comma in a name is an error in a file without a `;`, unless the name is known.
  dir.list(
      "tags", [](int i) { return i % 2 == 0 ? "\"Smith, John;dog\"" : "dog"; }, "train.csv", 0, 40);
  dir.list(
      "tags", [](int i) { return i % 2 == 0 ? "\"Smith, John\"" : "dog"; }, "val.csv", 40);
  CHECK(dir.find(multilabel({"tags"})).labels.classes == Lines{"Smith, John", "dog"});

  dir.list(
      "tags", [](int i) { return fmt::format("{} {}", i % 11, 10); }, "train.csv", 0, 40);
  dir.list(
      "tags", [](int) { return "2 10"; }, "val.csv", 40);
  found = dir.find(multilabel({"tags"}));
  CHECK(found.labels.classes == Lines{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"});
  CHECK(contains(join(found.notes, "\n"),
                 "no cell of 'tags' has a `;` or `|`, so white space separates its classes"));
}

TEST_CASE("init --task multilabel: columns of 0 and 1, one or several") {
  const ListFolder dir;
  const auto digits = [](int i) { return fmt::format("{:d},{:d}", i % 3 == 0, i % 5 == 0); };
  dir.list("hot,wet", digits);
  DataFindings found = dir.find(multilabel({"hot", "wet"}));
  CHECK(names_of(found) == Lines{"hot", "wet"});
  CHECK(counts(found) == Counts{20, 12});
  CHECK(found.without_class == 32);
  CHECK_FALSE(found.soft_labels);
  CHECK(contains(yaml_of(found), ", label: [hot, wet], split: "));
  found = dir.find(multilabel({"hot"}));
  CHECK(found.labels.list);
  CHECK(names_of(found) == Lines{"hot"});
  CHECK(counts(found) == Counts{20});
  CHECK(found.notes == Lines{"'hot' holds 0 and 1, so it is a class that an image has or not"});
  CHECK(contains(yaml_of(found), "\nnum_classes: 1\n"));
  dir.list("hot", [](int i) { return i == 4 ? "" : i % 3 == 0 ? "1" : "0"; });
  CHECK(dir.fault(multilabel({"hot"})) == "list.csv:6:11: error: the label is empty");
  for (const char* other : {"0.0", "0.25"}) {
    dir.list("hot", [&](int i) { return i % 3 == 0 ? "1.0" : other; });
    found = dir.find(multilabel({"hot"}));
    CHECK(names_of(found) == Lines{"hot"});
    CHECK(found.soft_labels == (std::string(other) == "0.25"));
    CHECK(contains(yaml_of(found), ", label: [hot], split: "));
  }

  const char* const versions[] = {"2.0", "v1", "v1;2.0"};
  dir.list("hot", [&](int i) { return versions[i % 3]; });
  CHECK(dir.fault(multilabel({"hot"})) ==
        "list.csv:3:11: error: the label 'v1' is not a number, but line 2 has the label '2.0': for "
        "a classification give the names of all classes in `classes`");

  dir.list("hot,wet", [&](int i) { return i == 4 ? std::string("-1,0") : digits(i); });
  CHECK(dir.fault(multilabel({"hot", "wet"})) ==
        "list.csv:6: error: the column 'hot' holds -1, but columns of classes hold 0 and 1: use "
        "--task regress if these are numbers to predict");
  dir.list("hot,wet", [&](int i) { return i == 4 ? std::string("0.25,0") : digits(i); });
  found = dir.find(multilabel({"hot", "wet"}));
  CHECK(found.soft_labels);
  CHECK(contains(yaml_of(found), "    soft_labels: true\n"));
}

TEST_CASE("init --task multilabel says if an image has one class only, or several rows") {
  const ListFolder dir;
  dir.list("tags", [](int i) { return i % 2 == 0 ? "cat" : "dog"; });
  CHECK(contains(join(dir.find(multilabel({"tags"})).warnings, "\n"),
                 "every image has exactly one class: --task classify, the default, suits"));
  const ListFolder two;
  two.list(
      "tags", [](int i) { return i % 2 == 0 ? "cat" : "dog"; }, "train.csv", 0, 40);
  two.list(
      "tags", [](int i) { return i % 2 == 0 ? "cat" : "cat;dog"; }, "val.csv", 40);
  CHECK_FALSE(contains(join(two.find(multilabel({"tags"})).warnings, "\n"), "exactly one class"));
  // A row for each class of an image.
  std::string rows = "image,tags\n";
  for (int i = 0; i < kRows; ++i)
    rows += fmt::format("{},{}\n", ListFolder::image(i / 2), i % 2 == 0 ? "cat" : "dog");
  dir.write("list.csv", rows);
  CHECK(contains(join(dir.find(multilabel({"tags"})).warnings, "\n"),
                 "list.csv: 30 rows name the same image as an earlier row"));
  dir.list("tags", [](int) { return ""; });
  CHECK(contains(dir.fault(multilabel({"tags"})), "no row has a label"));
}

TEST_CASE("init --label chooses the column with the classes") {
  const ListFolder dir;
  write_class(dir / "other", "cat", 3, 20);  // class folders do not matter
  dir.list("age,sex", age_and_sex);
  DataFindings found = dir.find({.columns = {"sex"}});
  CHECK(found.data.source == "csv");
  CHECK(names_of(found) == Lines{"f", "m"});
  CHECK(counts(found) == Counts{40, 20});
  CHECK(found.notes.empty());
  const std::string yaml = yaml_of(found);
  CHECK(contains(yaml, ", label: sex, split: "));
  CHECK(contains(yaml, "num_classes: auto"));
  CHECK(contains(yaml, "|onehot("));

  found = dir.find({.columns = {"age"}});
  CHECK(found.notes ==
        Lines{"the labels are integers up to 79 and are taken as classes, 20 of them without "
              "training images; to predict numbers, use --task regress"});
  CHECK(dir.fault({.columns = {"age", "sex"}}) ==
        "--label: error: names 2 columns, but one class per image is in one column; add --task "
        "multilabel if the columns hold 0 and 1, or --task regress if they hold numbers");

  dir.list("h", [](int i) { return fmt::format("{}.5", age_of(i)); });
  CHECK(dir.fault({.columns = {"h"}}) ==
        "list.csv: error: has labels such as 20.5, which are regression targets: `bvtrain init " +
            dir.path() + " --label h --task regress` writes a config for them");
  const char* const words[] = {"haze primary", "clear primary", "haze water", "clear water"};
  dir.list("tags", [&](int i) { return words[i % 4]; });
  CHECK(
      contains(join(dir.find({.columns = {"tags"}}).notes, "\n"),
               "classes such as 'clear primary' may be several labels in a cell; if they are, use "
               "--task multilabel"));
  dir.list("id", [](int i) { return fmt::format("n{}", i); });
  CHECK(contains(join(dir.find({.columns = {"id"}}).notes, "\n"),
                 "60 images have 60 classes; is this the column with the classes?"));
}

TEST_CASE("init --label and --task need a CSV file that fits") {
  const TempFolder photos;
  for (const char* name : {"cat", "dog"}) write_class(photos.path(), name, 5, 20);
  const auto fault = [&] {
    return error_of([&] { inspect_data(photos.path(), {.columns = {"age"}}); });
  };
  CHECK(fault() ==
        photos.path() +
            ": error: has no CSV file, which --label and --task need: it holds image folder, "
            "<class>/<file>; for other data write the config yourself (docs/labels.md)");
  photos.write("names.csv", "id,name\n1,cat\n");
  CHECK(contains(fault(), "names.csv: error: no column is called image, path"));

  const ListFolder dir;
  dir.list("age", age_and_sex, "train.csv", 0, 40);  // one cell too many
  CHECK(contains(dir.fault(regress({"age"})), "the row has 3 cells, but the header has 2"));
  dir.list("age,sex", age_and_sex, "train.csv", 0, 40);
  dir.list(
      "sex", [](int) { return "m"; }, "val.csv", 40);
  CHECK(contains(dir.fault(regress({"age"})), "val.csv: error: no column 'age' for `label`"));
  dir.list("age,sex", age_and_sex, "val.csv", 30);
  const DataFindings found = dir.find(regress({"age"}));
  CHECK(found.train == "train");
  CHECK(found.train_examples == 40);
  CHECK(found.validation_examples == 30);
  CHECK(found.warnings ==
        Lines{fmt::format("{0}/val.csv has 10 images that {0}/train.csv has too, so metrics do not "
                          "show how good the model is on new images",
                          dir.path())});
  dir.list(
      "age,split", [](int i) { return fmt::format("{},{}", age_of(i), "train"); }, "train.csv");
  CHECK(contains(dir.fault(regress({"age"})), "train.csv: error: has a column `split`"));
}

TEST_CASE("the recipe for numbers keeps the whole image, also with pretrained weights") {
  DataFindings found;
  found.folder = "faces";
  found.data = {"CSV file", {{"fname", "faces/list.csv"}}, {}, "csv"};
  found.task = LabelTask::regress;
  found.labels = {.columns = {"age"}, .list = true};
  found.targets = {{"age", 1, 40, 90}};
  found.train = "train[:80%]";
  found.validation = "train[80%:]";
  found.sliced = true;
  found.examples = 1000;
  found.train_examples = 800;
  found.validation_examples = 200;
  found.images.equal = false;
  const auto pp = [&](ImageSides typical, const PretrainedModel* from) {
    found.images.smallest = found.images.largest = found.images.typical = typical;
    const StarterRecipe recipe = choose_recipe(found, from);
    CHECK(recipe.train_pp == recipe.eval_pp);
    CHECK(contains(recipe.pp_hint, "give coordinates as fractions of the width"));
    CHECK(recipe.label_smoothing == 0);
    return recipe.train_pp;
  };
  CHECK(pp({480, 640}, nullptr) == "decode|resize(64, antialias=True)|value_range(-1, 1)");
  CHECK(pp({80, 100}, nullptr) == "decode|resize(64)|value_range(-1, 1)");
  CHECK(pp({28, 28}, nullptr) == "decode|resize(28)|value_range(-1, 1)");
  PretrainedModel from;
  from.path = "w.npz";
  from.model_name = "vit";
  from.model = "{variant: B/16}";
  from.image = {224, 224};
  from.fresh = {"head/.*"};
  CHECK(pp({300, 400}, &from) == "decode|resize(224)|value_range(-1, 1)");
  const std::string yaml = recipe_yaml(found, choose_recipe(found, &from), &from, "x.yaml");
  CHECK(contains(yaml,
                 R"(model_load: {dont_load: ["buffers/targets/.*", "head/.*"]}  # the head for the)"
                 " new targets starts fresh\n"));
  from.resize_method = "bicubic";
  CHECK(pp({300, 400}, &from) ==
        R"(decode|resize(224, "bicubic", antialias=True)|value_range(-1, 1))");
}

}  // namespace bv::test
