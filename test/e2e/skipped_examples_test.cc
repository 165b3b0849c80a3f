// skip_errors never skips silently: skipped.jsonl, metrics, log and report, after kills and with
// several ranks. It never hides a label out of range. With the real binary.
#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>

#include "lib/ckpt/formats/npz.h"
#include "lib/util/text.h"
#include "test/e2e/bad_input.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

// train/: four pictures of a cat, the third of them truncated, four of a dog and no ship. test/: a
// truncated picture and a good one of a cat and of a dog. The batches of 3 are in order, so cat/2
// comes at step 1 and ship/ at step 3.
struct Pets {
  TempFolder dir;
  bool missing = false;

  Pets() {
    const std::string file = golden_file("pp/img1.jpg");
    missing = file.empty();
    if (missing) return;
    const std::string good = read_file(file), broken = good.substr(0, good.size() / 2);
    for (const std::string name : {"cat", "dog"}) {
      for (int i = 0; i < 4; ++i) {
        write(dir / fmt::format("f/train/{}/{}.jpg", name, i),
              name == "cat" && i == 2 ? broken : good);
      }
      for (int i = 0; i < 2; ++i)
        write(dir / fmt::format("f/test/{}/{}.jpg", name, i), i == 0 ? broken : good);
    }
    dir.make("f/train/ship");
    write(dir / "c.yaml", config());
  }
  std::string config() const {
    const std::string data = "{name: image_folder, data_dir: " + (dir / "f") + ", split: ";
    const std::string pp = R"('decode|resize(8)|value_range(-1, 1)|onehot(3, key="label", )"
                           R"(key_result="labels")|keep("image", "labels")')";
    return "num_classes: 3\ntotal_steps: 10\nprecision: float32\ninput: {batch_size: 3, shuffle: "
           "false, skip_errors: 2, data: " +
           data + "train}, pp: " + pp +
           "}\nmodel_name: cnn\nmodel: {widths: [4], dense: 8}\nloss: softmax_xent\n"
           "optax_name: scale_by_adam\nlr: 0.001\nlog_training_steps: 1\nckpt_steps: 1000\n"
           "evals: {mean: {data: " +
           data + "test}, pp_fn: " + pp + ", pred: loss, log_steps: 2, skip_errors: true}}\n";
  }
  Finished train(const std::string& workdir, const std::vector<std::string>& more = {},
                 const Environment& environment = {}) const {
    std::vector<std::string> args = {"--config", dir / "c.yaml", "--workdir", dir / workdir};
    args.insert(args.end(), more.begin(), more.end());
    return run(args, environment);
  }
  std::string list(const std::string& workdir) const {
    return read_text(dir / (workdir + "/skipped.jsonl"));
  }
};

// Returns "<data> <step> <example>" of each line, and checks that each has a reason.
std::vector<std::string> entries(const std::string& list) {
  std::vector<std::string> all;
  for (const std::string& line : split(trim(list), '\n')) {
    const auto json = nlohmann::json::parse(line);
    CHECK(json.size() == 4);
    CHECK(!json.at("reason").get<std::string>().empty());
    all.push_back(fmt::format("{} {} {}", json.at("data").get<std::string>(),
                              json.at("step").get<int>(), json.at("example").get<std::string>()));
  }
  return all;
}

const std::vector<std::string> kEntries = {"evals.mean 0 test/cat/0.jpg",
                                           "evals.mean 0 test/dog/0.jpg", "input 1 train/cat/2.jpg",
                                           "input 3 train/ship/"};

}  // namespace

TEST_CASE("skipped examples are listed, measured, logged and reported") {
  const Pets pets;
  if (pets.missing) return;
  const Finished finished = pets.train("w");
  INFO(finished.err);
  REQUIRE(finished.code == 0);
  CHECK(entries(pets.list("w")) == kEntries);
  CHECK(contains(pets.list("w"),
                 "\"example\": \"train/ship/\", \"reason\": \"no images in this class "
                 "folder\"}\n"));
  for (const TextRow& row : metric_rows(pets.dir / "w")) {
    const int step = std::stoi(row.at("step"));
    CHECK(row.at("input/errors") == (step == 0 ? "0" : step < 3 ? "1" : "2"));
    if (step % 2 == 0) CHECK(row.at("mean/errors") == "2");
  }
  const std::string text = "4 examples were skipped so far (evals.mean: 2, input: 2), see " +
                           (pets.dir / "w/skipped.jsonl") + "\n";
  for (const char* epoch : {"Epoch 1: ", "Epoch 2: ", "Epoch 3: "})
    CHECK(contains(finished.err, epoch + text));
  CHECK(std::regex_search(finished.err,
                          std::regex(R"(\d\d:\d\d:\d\d )" + std::string("4 examples"))));
  const std::string report = read_file(pets.dir / "w/report.html");
  CHECK(contains(report, "input: 2 skipped"));
  CHECK(contains(report, "train/ship/"));
  CHECK(contains(report, "evals.mean: 2 skipped"));
}

TEST_CASE("without skipped examples there is no skipped.jsonl and no line in the log") {
  const Pets pets;
  if (pets.missing) return;
  const Finished finished = pets.train("w", {"--set", "input.data.split=train[:1]+train[1:2]",
                                             "--set", "input.batch_size=2", "--set", "evals=null"});
  INFO(finished.err);
  REQUIRE(finished.code == 0);
  CHECK(!exists(pets.dir / "w/skipped.jsonl"));
  CHECK(!contains(finished.err, "skipped"));
  for (const TextRow& row : metric_rows(pets.dir / "w")) CHECK(row.at("input/errors") == "0");
}

TEST_CASE("a run that was killed and resumed lists and counts the same skipped examples") {
  const Pets pets;
  if (pets.missing) return;
  REQUIRE(pets.train("whole").code == 0);
  // The run dies after it commits the checkpoint of step 1, a step that skipped one example. Or it
  // dies at the evaluation of step 4, and resumes from step 1 with an entry of step 3 in the file.
  for (const char* point : {"ckpt.last_replaced:1", "eval.rank0:3"}) {
    INFO(point);
    const std::string cut = std::string("cut") + std::to_string(point[0]);
    REQUIRE(pets.train(cut, {}, {{"BVTRAIN_CRASH_AT", point}}).code == 137);
    // Training goes on while the checkpoint is written, at most to the entry of step 3.
    const size_t listed = entries(pets.list(cut)).size();
    CHECK((listed == 4 || (point[0] == 'c' && listed == 3)));
    const Finished resumed = pets.train(cut);
    INFO(resumed.err);
    REQUIRE(resumed.code == 0);
    CHECK(pets.list(cut) == pets.list("whole"));
    CHECK(repeatable_rows(pets.dir / cut) == repeatable_rows(pets.dir / "whole"));
    CHECK(contains(read_file(pets.dir / (cut + "/report.html")), "input: 2 skipped"));
  }
}

TEST_CASE("a resumed run remembers how many examples it has skipped") {
  const Pets pets;
  if (pets.missing) return;
  const std::vector<std::string> one = {"--set", "input.skip_errors=1", "--set", "evals=null"};
  const std::string line =
      "[input] train/ship/: no images in this class folder (2 examples failed; input.skip_errors "
      "allows 1)\n";
  const Finished whole = pets.train("whole", one);
  CHECK(whole.code == 3);
  CHECK(contains(whole.err, line));
  CHECK(entries(pets.list("whole")) == std::vector<std::string>{"input 1 train/cat/2.jpg"});
  REQUIRE(pets.train("cut", one, {{"BVTRAIN_CRASH_AT", "ckpt.last_replaced:1"}}).code == 137);
  const Finished resumed = pets.train("cut", one);
  CHECK(resumed.code == 3);
  CHECK(contains(resumed.err, line));
}

TEST_CASE("two ranks list each skipped example once, as one does") {
  const Pets pets;
  if (pets.missing) return;
  // Every rank reads every example within these epochs.
  const auto list = [&](const std::string& devices, const Environment& environment = {}) {
    const Finished finished =
        pets.train("w" + devices,
                   {"--devices", devices, "--set", "input.batch_size=4", "--set",
                    "input.shuffle=true", "--set", "total_steps=20", "--set", "ckpt_steps=2"},
                   environment);
    INFO(finished.err);
    CHECK(finished.code == (environment.empty() ? 0 : 137));
    return pets.list("w" + devices);
  };
  const std::string one = list("cpu");
  CHECK(entries(one).size() == 4);
  list("cpu:2", {{"BVTRAIN_CRASH_AT", "ckpt.last_replaced:3"}});
  CHECK(list("cpu:2") == one);
  const auto rows = metric_rows(pets.dir / "wcpu:2");
  CHECK(rows.back().at("input/errors") == "2");
  CHECK(rows.back().at("mean/errors") == "2");
}

TEST_CASE("no skip_errors covers a label out of range") {
  const std::string file = golden_file("pp/img1.jpg");
  if (file.empty()) return;
  Bad bad;
  for (const char* name : {"cat", "dog", "ship"})
    write(bad.dir / fmt::format("f/{}/1.jpg", name), read_file(file));
  const std::string data =
      "data: {name: image_folder, data_dir: " + (bad.dir / "f") + ", split: train}";
  const auto config = [&](int train_classes, int test_classes) {
    const std::string pp =
        "pp{}: 'decode|resize(8)|value_range(-1, 1)|onehot({}, key=\"label\", "
        "key_result=\"labels\")|keep(\"image\", \"labels\")'";
    return "num_classes: 2\ntotal_steps: 3\nmodel_name: cnn\nloss: softmax_xent\noptax_name: "
           "sgd\nlr: 0.1\nlog_training_steps: 1\ninput:\n  batch_size: 2\n  skip_errors: true\n  " +
           data + "\n  " + fmt::format(fmt::runtime(pp), "", train_classes) +
           "\nevals:\n  mean:\n    pred: loss\n    skip_errors: true\n    log_steps: 1\n    " +
           data + "\n    " + fmt::format(fmt::runtime(pp), "_fn", test_classes) + "\n";
  };
  const std::string why =
      "ship/1.jpg: onehot: 'label' is 2, must be within 0 .. 1 (class 'ship')\n";
  CHECK(contains(bad.line(config(2, 2)), "error: num_classes: 2 is less than the 3 classes"));
  const std::string two = replaced(config(3, 2), "num_classes: 2", "num_classes: 3");
  CHECK(contains(bad.line(two), "error: evals.mean.pp_fn: " + why));
}

TEST_CASE("a label out of range that no check can know ends the run at its batch") {
  const TempFolder dir;
  const at::Tensor kinds = at::arange(8, at::kLong).remainder(2);
  kinds.mutable_data_ptr<int64_t>()[5] = 2;
  write_npz(dir / "d.npz", {{"image", at::zeros({8, 8, 8, 1}, at::kByte)}, {"kind", kinds}});
  std::string config = without_evals(
      digits_with(kData, "skip_errors: true\n  data: {name: npz, fname: " + (dir / "d.npz") + "}"));
  config = replaced(replaced(config, "key=\"label\"", "key=\"kind\""), "onehot(10", "onehot(2");
  config = replaced(config, "num_classes: 10", "num_classes: 2");
  config = replaced(config, "batch_size: 64", "batch_size: 2\n  shuffle: false");
  write(dir / "c.yaml", config);
  const Finished finished = run({"--config", dir / "c.yaml", "--workdir", dir / "w"});
  INFO(finished.err);
  CHECK(finished.code == 3);
  CHECK(
      contains(finished.err, "[input] train row 5: onehot: 'kind' is 2, must be within 0 .. 1\n"));
  CHECK(metric_rows(dir / "w").back().at("step") == "2");
}

}  // namespace bv::test
