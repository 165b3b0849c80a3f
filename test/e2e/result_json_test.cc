// result.json: how a run ended. With the real binary.
#include <signal.h>
#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lib/util/file.h"
#include "test/support/binary.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

using nlohmann::json;

const char* const kResultConfig = R"(
num_classes: 10
seed: 7
total_steps: 12
input:
  data: {name: digits, split: train}
  batch_size: 32
  pp: &pp value_range(-1, 1)|onehot(10, key="label", key_result="labels")|keep("image", "labels")
model_name: cnn
model: {widths: [8], dense: 16}
loss: softmax_xent
optax_name: scale_by_adam
lr: 0.001
precision: float32
log_training_steps: 1
ckpt_steps: 4
evals:
  test: {type: classification, data: {name: digits, split: "test[:64]"}, pp_fn: *pp,
         loss_name: softmax_xent, log_steps: 2}
)";

struct ResultRun {
  TempFolder dir;
  std::string out = dir / "out", file = out + "/result.json";
  ResultRun() { write(dir / "c.yaml", kResultConfig); }
  std::vector<std::string> args(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"--config", dir / "c.yaml", "--workdir", out};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  json result() const { return json::parse(read_file(file)); }
};

// Returns the best value of a metric and its step, from metrics.jsonl.
json best_in_rows(const std::string& workdir, const std::string& name, bool up) {
  json best;
  for (const TextRow& row : metric_rows(workdir)) {
    if (!row.contains(name)) continue;
    const double value = std::stod(row.at(name));
    const bool better = best.is_null() || (up ? value > best["value"] : value < best["value"]);
    if (better) best = {{"value", value}, {"step", std::stoll(row.at("step"))}};
  }
  return best;
}

}  // namespace

TEST_CASE("result.json of a finished run; a second start of it leaves the file as it is") {
  const ResultRun f;
  const Finished finished = run(f.args());
  INFO(finished.err);
  REQUIRE(finished.code == 0);
  const json result = f.result();
  INFO(result.dump(2));
  CHECK(result.at("status") == "finished");
  CHECK(result.at("exit_code") == 0);
  CHECK(result.at("reason") == "finished");
  CHECK(result.at("step") == 12);
  CHECK(result.at("total_steps") == 12);
  CHECK(result.at("first_step") == 0);
  CHECK(result.at("main_metric") == "test/prec@1");
  for (const auto& [name, up] :
       {std::pair("test/prec@1", true), {"test/loss", false}, {"training_loss", false}}) {
    INFO(name);
    CHECK(result.at("best").at(name) == best_in_rows(f.out, name, up));
    CHECK(result.at("final").at(name).at("step") == 12);
    CHECK(result.at("final").at(name).at("value").dump() == metric_rows(f.out).back().at(name));
  }
  CHECK_FALSE(result.at("final").contains("uptime"));
  CHECK(result.at("started").get<std::string>() <= result.at("ended").get<std::string>());
  CHECK(result.at("wall_seconds") >= result.at("training_seconds"));
  CHECK(result.at("training_seconds") > 0);
  CHECK(result.at("total_wall_seconds") == result.at("wall_seconds"));
  CHECK(result.at("images_per_second") > 0);
  CHECK(result.at("seed") == 7);
  CHECK(result.at("precision") == "float32");
  CHECK(result.at("precision_config") == "float32");
  CHECK(result.at("device") == "cpu");
  CHECK(result.at("processes") == 1);
  const std::string out = std::filesystem::absolute(f.out).string();
  CHECK(result.at("report") == out + "/report.html");
  CHECK(result.at("checkpoint") == out + "/ckpt/step-12");
  CHECK(json::parse(read_file(f.out + "/run.json")).at("precision") == "float32");

  const std::string before = read_file(f.file);
  CHECK(run(f.args()).code == 0);  // finished already
  CHECK(read_file(f.file) == before);

  // The same run with its keys in another order and a value from the command line.
  std::string config = kResultConfig;
  config.erase(config.find("seed: 7\n"), 8);
  write(f.dir / "d.yaml", config);
  const Finished same =
      run({"--config", f.dir / "d.yaml", "--workdir", f.dir / "same", "--set", "seed=7"});
  INFO(same.err);
  REQUIRE(same.code == 0);
  const json other = json::parse(read_file(f.dir / "same/result.json"));
  CHECK(other.at("config_hash") == result.at("config_hash"));
  CHECK(other.at("best") == result.at("best"));
}

TEST_CASE("result.json of a stopped run is gone while the run continues, and after kill -9") {
  const ResultRun f;
  const std::vector<std::string> args = f.args({"--set", "total_steps=1000000"});
  Child first(args);
  REQUIRE(wait_for_file(f.out + "/ckpt/LAST"));
  CHECK_FALSE(exists(f.file));
  first.kill(SIGTERM);
  CHECK(first.wait().code == 143);
  const json result = f.result();
  INFO(result.dump(2));
  const int64_t step = result.at("step");
  CHECK(result.at("status") == "stopped");
  CHECK(result.at("exit_code") == 143);
  CHECK(result.at("reason") == "stopped by SIGTERM or SIGHUP; the checkpoint of step " +
                                   std::to_string(step) + " is committed");
  CHECK(result.at("checkpoint").get<std::string>().ends_with("/ckpt/step-" + std::to_string(step)));
  CHECK(exists(result.at("checkpoint")));

  // A rejected start changes nothing.
  const std::string before = read_file(f.file);
  CHECK(run(f.args({"--set", "total_steps=1000000", "--set", "model.dense=17"})).code == 2);
  CHECK(read_file(f.file) == before);

  Child second(args);
  REQUIRE(wait_until([&] { return !exists(f.file); }));
  second.kill(SIGKILL);
  second.wait();
  CHECK_FALSE(exists(f.file));

  Child third(args);
  const std::string rows = f.out + "/metrics.jsonl";
  const auto size = std::filesystem::file_size(rows);
  REQUIRE(wait_until([&] { return std::filesystem::file_size(rows) > size + 1000; }));
  third.kill(SIGUSR1);
  CHECK(third.wait().code == 75);
  const json again = f.result();
  INFO(again.dump(2));
  CHECK(again.at("exit_code") == 75);
  CHECK(again.at("first_step") >= step);
  CHECK(again.at("total_wall_seconds") > again.at("wall_seconds"));
  // The values before the restart count too.
  CHECK(again.at("best").at("training_loss") == best_in_rows(f.out, "training_loss", false));
}

TEST_CASE("result.json of a run that diverged, and of one whose disk is full") {
  const ResultRun f;
  const Finished diverged =
      run(f.args({"--set", "lr=1e30", "--set", "optax_name=sgd", "--set", "evals=null"}));
  INFO(diverged.err);
  CHECK(diverged.code == 4);
  json result = f.result();
  INFO(result.dump(2));
  CHECK(result.at("status") == "diverged");
  CHECK(result.at("exit_code") == 4);
  CHECK(contains(result.at("reason"), "[train] "));
  CHECK(contains(result.at("reason"), "became nan or inf somewhere within steps ["));
  CHECK(contains(diverged.err, result.at("reason").get<std::string>() + "\n"));
  CHECK(result.at("step") < 12);
  CHECK(result.at("final").empty() == (result.at("step") == 0));  // the row of NaN is not written
  REQUIRE(result.at("report").is_string());
  CHECK(contains(read_file(result.at("report").get<std::string>()), ", diverged: "));

  const std::string other = f.dir / "full";
  rlimit before{}, limit{};
  getrlimit(RLIMIT_FSIZE, &before);
  limit = before;
  limit.rlim_cur = 1 << 20;
  setrlimit(RLIMIT_FSIZE, &limit);
  const Finished full =
      Child({"--config", f.dir / "c.yaml", "--workdir", other, "--set", "model.dense=2048"},
            {{"BVTRAIN_RETRY_AFTER", "0"}})
          .wait();
  setrlimit(RLIMIT_FSIZE, &before);
  INFO(full.err);
  CHECK(full.code == 5);
  result = json::parse(read_file(other + "/result.json"));
  CHECK(result.at("status") == "failed");
  CHECK(result.at("exit_code") == 5);
  CHECK(contains(result.at("reason"), "File too large"));
  CHECK(result.at("checkpoint").is_null());
}

TEST_CASE("several ranks write one result.json") {
  const ResultRun f;
  const Finished finished = run(f.args({"--devices", "cpu:2"}));
  INFO(finished.err);
  REQUIRE(finished.code == 0);
  CHECK(f.result().at("processes") == 2);
  CHECK(f.result().at("status") == "finished");
  CHECK(count(finished.err, " of 12 steps in ") == 1);
  CHECK(count(finished.err, "[2] test/prec@1=") == 1);
}

}  // namespace bv::test
