// bvtrain predict --eval: examples, labels and counts equal the evaluator's.
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "lib/util/text.h"
#include "test/init/data_folders.h"
#include "test/support/binary.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

using nlohmann::json;

constexpr int kAnimalImages = 12;

// The class of image i in the CSV file.
std::string breed(int i) { return i % 2 == 0 ? "cat" : "dog"; }
int kind(int i) { return i % 3 == 0 ? 1 : 0; }
std::string tags(int i) {
  const std::string all[] = {"wet", "cold;wet", "", "cold;old;wet"};
  return all[i % 4];
}
double age(int i) { return 1.5 * i + 0.25; }
double size(int i) { return -0.5 - i % 5; }
double share(int i) { return i % 3 == 1 ? 0.75 : 0.25; }

struct Animals {
  TempFolder dir;
  std::string workdir = dir / "w";

  Animals() {
    std::string rows = "image,breed,kind,tags,age,size,first,second\n";
    for (int i = 0; i < kAnimalImages; ++i) {
      dir.write(fmt::format("{}.jpg", i), plain_jpeg(8, 8, 20 * i));
      rows += fmt::format("{}.jpg,{},{},{},{},{},{},{}\n", i, breed(i), kind(i), tags(i), age(i),
                          size(i), share(i), 1 - share(i));
    }
    dir.write("m.csv", rows);
  }

  // Trains a little. `data`: the keys of the labels in the CSV file. `task`: lines of the config.
  // `evaluator`: the keys of the evaluator `val` besides those of its data.
  void train(const std::string& data, const std::string& ops, const std::string& task,
             const std::string& evaluator) const {
    const std::string section = fmt::format("{{name: csv, fname: {}, {}}}", dir / "m.csv", data);
    const std::string pp = "'decode|value_range(-1, 1)|" + ops + R"(keep("image", "labels")')";
    dir.write("c.yaml", fmt::format(R"(
total_steps: 3
log_training_steps: 1
compute_threads: 1
precision: float32
model_name: cnn
model: {{widths: [4], dense: 8}}
optax_name: scale_by_adam
lr: 0.01
input: {{data: {0}, batch_size: 4, pp: {1}}}
evals: {{val: {{{2}, data: {0}, pp_fn: {1}, batch_size: 4, log_steps: 3}}}}
{3})",
                                    section, pp, evaluator, task));
    const Finished finished = run({"--config", dir / "c.yaml", "--workdir", workdir});
    INFO(finished.err);
    REQUIRE(finished.code == 0);
  }

  Finished predict(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> args = {"predict", "--workdir", workdir, "--eval", "val"};
    args.insert(args.end(), more.begin(), more.end());
    Finished finished = run(args);
    INFO(finished.err);
    REQUIRE(finished.code == 0);
    return finished;
  }
  std::vector<json> predicted(std::vector<std::string> more = {}) const {
    more.insert(more.end(), {"--output", "-"});
    std::vector<json> lines;
    for (const std::string& line : split(predict(more).out, '\n'))
      if (!line.empty()) lines.push_back(json::parse(line));
    return lines;
  }
  // The number of images that the evaluator counted as correct.
  int64_t right(const std::string& metric) const {
    return std::llround(std::stod(metric_rows(workdir).back().at(metric)) * kAnimalImages);
  }
};

constexpr const char* kOneClass = "num_classes: 2\nloss: softmax_xent\n";
constexpr const char* kClassification = "type: classification, loss_name: softmax_xent";

}  // namespace

TEST_CASE("predict --eval leaves out what the evaluator's quarantine leaves out") {
  const Animals animals;
  animals.dir.write("list.jsonl", fmt::format("{{\"data\": \"photos\", \"example\": \"{}:7\"}}\n",
                                              animals.dir / "m.csv"));
  const std::string quarantine = "quarantine: " + (animals.dir / "list.jsonl");
  animals.train("label: breed", R"(onehot(2, key="label", key_result="labels")|)", kOneClass,
                std::string(kClassification) + ", " + quarantine);
  const std::vector<json> lines = animals.predicted();
  REQUIRE(lines.size() == kAnimalImages - 1);
  for (const json& line : lines) {
    CHECK_FALSE(line.contains("error"));
    CHECK_FALSE(line.at("file").get<std::string>().ends_with(":7"));
  }
  const Finished table = animals.predict();
  CHECK(contains(table.err, "evals.val.quarantine: 1 of 12 examples of evals.val is excluded\n"));
  CHECK(contains(table.out, " of 11 are right\n"));
  CHECK_FALSE(contains(table.err, "could not be read"));
}

TEST_CASE("predict --eval shows the labels that pp makes, from whatever feature") {
  const Animals animals;
  animals.train("label: breed", R"(onehot(2, key="kind", key_result="labels")|)", kOneClass,
                kClassification);
  const auto check = [&](const std::vector<json>& lines) {
    REQUIRE(lines.size() == kAnimalImages);
    for (int i = 0; i < kAnimalImages; ++i) CHECK(lines[i].at("label").at("index") == kind(i));
  };
  check(animals.predicted());
  check(animals.predicted({"--pp", "decode|value_range(-1, 1)|keep(\"image\")"}));
  CHECK(contains(animals.predict().out,
                 fmt::format("\n{} of 12 are right\n", animals.right("val/prec@1"))));
  // The image is made from another feature, too.
  std::string rows;
  for (int i = 0; i < kAnimalImages; ++i)
    rows += fmt::format("{{\"photo\": \"{}.jpg\", \"kind\": {}}}\n", i, kind(i));
  const std::string file = animals.dir.write("m.jsonl", rows);
  check(animals.predicted(
      {"--set", "evals.val.data={name: jsonl, fname: " + file + ", fopen_keys: [photo]}", "--pp",
       R"(copy("photo", "image")|decode|value_range(-1, 1)|keep("image"))"}));
}

TEST_CASE("predict --eval shows several classes next to the predicted ones") {
  const Animals animals;
  animals.train("label: tags, multilabel: true", "",
                "num_classes: 3\nloss: sigmoid_xent\ntask_kw: {multilabel: true}\n",
                "type: class_metrics, multilabel: true, threshold: 0.45, metrics: [accuracy]");
  const std::vector<json> lines = animals.predicted();
  REQUIRE(lines.size() == kAnimalImages);
  for (int i = 0; i < kAnimalImages; ++i) {
    std::string names;
    for (const json& label : lines[i].at("labels"))
      names += (names.empty() ? "" : ";") + label.at("class").get<std::string>();
    CHECK(names == tags(i));
    CHECK_FALSE(lines[i].contains("label"));
  }
  const std::string table = animals.predict().out;
  CHECK(contains(table, "labels 0 cold, 1 old, 2 wet   predicted "));
  CHECK(contains(table,
                 fmt::format("\n{} of 12 are exact matches\n", animals.right("val/accuracy"))));
  const std::string csv = animals.predict({"--output", "-", "--format", "csv", "--top", "1"}).out;
  CHECK(csv.starts_with("file,label,label_name,class_1,name_1,probability_1,error\n"));
  CHECK(contains(csv, ",0;1;2,cold;old;wet,"));
}

TEST_CASE("predict --eval shows the right numbers next to the predicted ones") {
  const Animals animals;
  animals.train("label: [age, size]", "", "num_classes: 2\ntask: regress\n", "type: regression");
  const std::vector<json> lines = animals.predicted();
  REQUIRE(lines.size() == kAnimalImages);
  for (int i = 0; i < kAnimalImages; ++i) {
    CHECK(lines[i].at("labels") == json::array({age(i), size(i)}));
    CHECK(lines[i].at("values").size() == 2);
  }
  const std::string csv = animals.predict({"--output", "-", "--format", "csv"}).out;
  CHECK(csv.starts_with("file,label_age,value_age,label_size,value_size,error\n"));
  CHECK(contains(csv, "m.csv:4,3.25,"));
  const std::string table = animals.predict({"--first", "3"}).out;
  CHECK(contains(table, "m.csv:4   label 3.25   predicted "));
  CHECK(contains(table, "   label -2.5   predicted "));
  CHECK_FALSE(contains(table, " are right"));
}

TEST_CASE("predict --eval shows the class with the largest share of soft labels") {
  const Animals animals;
  animals.train("label: [first, second]", "", kOneClass,
                "type: class_metrics, soft_labels: true, metrics: [accuracy]");
  const std::vector<json> lines = animals.predicted();
  REQUIRE(lines.size() == kAnimalImages);
  for (int i = 0; i < kAnimalImages; ++i)
    CHECK(lines[i].at("label").at("index") == (share(i) > 0.5 ? 0 : 1));
  CHECK(contains(animals.predict().out,
                 fmt::format("\n{} of 12 are right\n", animals.right("val/accuracy"))));
}

}  // namespace bv::test
