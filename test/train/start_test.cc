// The checks at the start of a run: ranks that read other data than rank 0, and a checkpoint that
// does not fit.
#include "lib/train/start.h"

#include <ATen/ops/ones.h>

#include <catch2/catch.hpp>

#include "lib/ckpt/best_checkpoint.h"
#include "lib/config/load_config.h"
#include "lib/train/data_changes.h"
#include "test/support/error.h"
#include "test/support/folder.h"
#include "test/support/tiny_model.h"

namespace bv::test {
namespace {

// What data_summary() returns for a run with one evaluator, with other `changes`.
nlohmann::json summary(const nlohmann::json& changes = nlohmann::json::object()) {
  nlohmann::json data = {{"input", "1a"},
                         {"examples", 1437},
                         {"evals", {{"val.v2", 60}}},
                         {"labels", {{"evals.val.v2", "2b"}}},
                         {"content", {{"input", "3c"}, {"evals.val.v2", "4d"}}}};
  data.merge_patch(changes);
  return data;
}

std::vector<std::string> lines(const std::vector<nlohmann::json>& summaries) {
  std::vector<std::string> all;
  for (const Error& error : data_disagreements(summaries)) all.emplace_back(error.what());
  return all;
}

using Messages = std::vector<std::string>;

}  // namespace

TEST_CASE("a checkpoint lists the starts that have led to it") {
  Restored checkpoint;
  checkpoint.meta = {{"tool_version", "0.1"}};
  CHECK(starts_of(checkpoint).empty());        // of an earlier version
  constexpr int64_t kLate = int64_t{1} << 52;  // another host's clock is ahead
  checkpoint.meta["starts"] = {{0, 7}, {11, 8}, {31, kLate}, {"x", 9}, {-1, 9}, {1}, 2};
  std::vector<RunStart> starts = starts_of(checkpoint);
  REQUIRE(starts.size() == 3);
  CHECK(starts[1].from == 11);
  CHECK(starts[1].time == 8);
  add_start(starts, 21);  // the run went back: step 31 comes again
  REQUIRE(starts.size() == 3);
  CHECK(starts[1].from == 11);
  CHECK(starts[2].from == 21);
  CHECK(starts[2].time == kLate + 1);
  add_start(starts, 0);  // it starts over
  REQUIRE(starts.size() == 1);
  CHECK(starts[0].time == kLate + 2);
}

TEST_CASE("model_init warns of a best checkpoint that was chosen by its averaged weights") {
  const TempFolder dir;
  const Workdir workdir(dir.path());
  const CkptFolder ckpt = workdir.ckpt();
  {
    Checkpointer checkpointer(workdir);
    Snapshot snapshot;
    snapshot.step = 5;
    snapshot.tensors["params/bias"] = at::ones({3});
    snapshot.meta = {{"config", R"({"evals": {"val": {"ema": true}, "plain": {"ema": false},
                                              "bare": {"prefix": "", "ema": true}}})"}};
    checkpointer.save(std::move(snapshot), true);
    checkpointer.wait();
  }
  write_best(ckpt.best(""), ckpt.step(5), {"val/loss", false, 5, 0.5});
  write_best(ckpt.best("plain"), ckpt.step(5), {"plain/loss", false, 5, 0.5});
  const auto warned = [&](const std::string& key, const std::string& which) {
    const Config config = parse_config(key + ": '" + dir.path() + which + "'", "t.yaml");
    peek_start(config);
    throw_problems(config);
    return warnings(config);
  };
  CHECK(warned("model_init", ":best") ==
        Messages{"t.yaml:1:13: warning: model_init: " + dir.path() +
                 ":best was chosen by val/loss of its averaged weights, but this loads the "
                 "unaveraged ones; " +
                 dir.path() + ":best:ema loads the averaged ones"});
  CHECK(warned("model_init", "/ckpt/best").size() == 1);
  for (const char* which : {":best:ema", ":best-plain", "/ckpt/step-5", ""}) {
    INFO(which);
    CHECK(warned("model_init", which).empty());
  }
  CHECK(warned("resume", ":best").empty());  // it continues with both
}

TEST_CASE("ranks with the same data agree") {
  CHECK(lines({summary()}).empty());
  CHECK(lines({summary(), summary(), summary()}).empty());
}

TEST_CASE(
    "other data on a rank are an error that names the data set, the ranks and the difference") {
  const std::string end = "; all ranks must read the same data";
  CHECK(lines({summary(), summary(), summary({{"input", "9f"}, {"examples", 1436}})}) ==
        Messages{"input.data: error: rank 2 has 1,436 examples, rank 0 has 1,437 examples" + end});
  CHECK(lines({summary(), summary({{"input", "9f"}}), summary({{"input", "9f"}})}) ==
        Messages{
            "input.data: error: ranks 1, 2 have 1,437 examples with other labels, class names or "
            "order, rank 0 has 1,437 examples" +
            end});
  CHECK(
      lines({summary(), summary({{"content", {{"input", "9f"}}}})}) ==
      Messages{"input.data: error: rank 1 has 1,437 examples with other content, rank 0 has 1,437 "
               "examples" +
               end});
  // Fewer examples also change the hashes: one line names each data set.
  CHECK(lines({summary(), summary({{"evals", {{"val.v2", 59}}},
                                   {"labels", {{"evals.val.v2", "9f"}}},
                                   {"content", {{"evals.val.v2", "9f"}}}})}) ==
        Messages{"evals.val.v2.data: error: rank 1 has 59 examples, rank 0 has 60 examples" + end});
  CHECK(
      lines({summary(), summary({{"labels", {{"evals.val.v2", "9f"}}}}),
             summary({{"content", {{"evals.val.v2", "9f"}}}})}) ==
      Messages{"evals.val.v2.data: error: rank 2 has 60 examples with other content, rank 0 has 60 "
               "examples" +
                   end,
               "evals.val.v2.data: error: rank 1 has 60 examples with other labels, class names or "
               "order, rank 0 has 60 examples" +
                   end});
}

TEST_CASE("an evaluator's other examples are told unless a key that chooses them has changed") {
  const std::string run =
      R"({"evals": {"knn": {"type": "knn", "train": {"name": "digits", "split": "train"},
                            "data": {"name": "digits", "split": "test"}},
                    "pairs": {"type": "retrieval", "file": "a.npz"}}})";
  Restored from;
  from.folder = "run/ckpt/step-5";
  from.meta["config"] = run;
  from.meta["data"] = summary({{"evals", {{"knn", 1797}, {"pairs", 60}}}});
  // Returns what is told of evaluators that have 50 examples now.
  const auto told = [&](const std::string& name, const std::vector<Override>& overrides) {
    return other_examples(from, parse_config_json(run, "t.yaml", overrides), {{name, {50, 0}}});
  };
  const auto set = [](const std::string& key) {
    return std::vector<Override>{{key, "other", "--set"}};
  };
  const std::string end =
      "; now 50 examples); a slice such as train[80%:] may now hold images that the model was "
      "trained on";
  const Messages knn = {"evals.knn.data: other examples than in training (1,797 examples" + end};
  const Messages pairs = {"evals.pairs.data: other examples than in training (60 examples" + end};
  CHECK(told("knn", {}) == knn);
  CHECK(told("knn", set("evals.knn.vote")) == knn);
  CHECK(told("knn", set("evals.pairs.file")) == knn);
  for (const char* key :
       {"evals.knn.train.split", "evals.knn.data.split", "evals.knn.quarantine"}) {
    INFO(key);
    CHECK(told("knn", set(key)).empty());
  }
  CHECK(told("pairs", {}) == pairs);
  CHECK(told("pairs", set("evals.pairs.prefix")) == pairs);
  for (const char* key : {"evals.pairs.file", "evals.pairs.image"}) {
    INFO(key);
    CHECK(told("pairs", set(key)).empty());
  }
  // Here `image` names a data set of a mixture.
  const ConfigChange input = {{"input", "data"}, "60 examples", "50 examples"};
  CHECK_FALSE(chooses_examples({{"input", "image", "pp"}, "'a'", "'b'"}, input));
  CHECK(chooses_examples({{"input", "image", "data", "split"}, "'a'", "'b'"}, input));
}

TEST_CASE("a key that chooses the examples of val.v2 does not hide other examples of val") {
  const auto config = [](const std::string& split) {
    return R"({"evals": {"val": {"data": {"name": "digits"}},
                         "val.v2": {"data": {"name": "digits", "split": ")" +
           split + R"("}}}})";
  };
  Restored from;
  from.folder = "run/ckpt/step-5";
  from.meta["config"] = config("test");
  from.meta["data"] = summary({{"evals", {{"val", 60}, {"val.v2", 60}}}});
  CHECK(
      other_examples(from, parse_config_json(config("train"), "t.yaml"),
                     {{"val", {50, 0}}, {"val.v2", {50, 0}}}) ==
      Messages{"evals.val.data: other examples than in training (60 examples; now 50 examples); a "
               "slice such as train[80%:] may now hold images that the model was trained on"});
}

TEST_CASE("a checkpoint that does not fit the config says how to start from its weights") {
  TinyRun before("{optax_name: scale_by_adam, lr: 0.01}"),
      same("{optax_name: scale_by_adam, lr: 1}"),
      other("{optax_name: scale_by_adam, lr: 0.01, ema: {decay: 0.5}}");
  const Restored from = {5, "run/ckpt/step-5", before.step->state(), {}};
  load_run_state(*same.step, from);
  CHECK(same.step->state().at("params/head/bias").equal(from.tensors.at("params/head/bias")));
  CHECK(error_of([&] { load_run_state(*other.step, from); }) ==
        "run/ckpt/step-5: error: does not fit this config: missing ema/body/bias, ema/body/kernel, "
        "ema/head/bias, ema/head/kernel, ema/mean; a run with this config can only start from the "
        "weights: 'model_init: run/ckpt/step-5' in a new workdir");
}

}  // namespace bv::test
