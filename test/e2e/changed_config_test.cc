// A run that is continued with another config reports what has changed, and accepts changes that
// affect training only with --accept-changes. With the real binary.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>

#include "lib/ckpt/formats/npz.h"
#include "lib/ckpt/manifest.h"
#include "lib/util/host.h"
#include "test/support/binary.h"
#include "test/support/opens.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

// A run of ten steps of the digits, finished.
struct FinishedRun {
  TempFolder dir;
  std::string workdir = dir / "out";

  explicit FinishedRun(const std::vector<std::string>& values = {}) {
    const Finished first = again(values);
    INFO(first.err);
    REQUIRE(first.code == 0);
  }

  Finished again(const std::vector<std::string>& values,
                 const std::vector<std::string>& flags = {}) const {
    std::vector<std::string> args = {"--config", source_file("configs/digits_cnn.yaml"),
                                     "--workdir", workdir};
    std::vector<std::string> all = {"total_epochs=null", "total_steps=10", "ckpt_steps=null",
                                    "schedule=null", "log_training_steps=5"};
    all.insert(all.end(), values.begin(), values.end());
    for (const std::string& value : all) args.insert(args.end(), {"--set", value});
    args.insert(args.end(), flags.begin(), flags.end());
    return run(args);
  }
};

// The places {} are the files of the training and of the evaluator `test`.
constexpr const char* kArrayConfig = R"(
total_epochs: 1
log_training_epochs: 1
ckpt_epochs: 1
num_classes: 2
compute_threads: 1
precision: float32
model_name: cnn
model: {{widths: [8], dense: 16}}
loss: softmax_xent
optax_name: scale_by_adam
lr: 0.01
input:
  data: {{name: npz, fname: '{}'}}
  batch_size: 32
  pp: value_range(-1, 1)|onehot(2, key="label", key_result="labels")|keep("image", "labels")
evals:
  test:
    type: classification
    data: {{name: npz, fname: '{}'}}
    batch_size: 20
    pp_fn: value_range(-1, 1)|onehot(2, key="label", key_result="labels")|keep("image", "labels")
    loss_name: softmax_xent
    log_epochs: 1
)";

double number_in_row(const TextRow& row, const std::string& name) {
  return std::stod(row.at(name));
}

}  // namespace

TEST_CASE("a finished run says that a changed config trains nothing") {
  const FinishedRun finished;
  CHECK(finished.again({}).code == 0);
  const Finished changed = finished.again({"lr=0.5"});
  CHECK(changed.code == 2);
  CHECK(contains(changed.err, "changed config: lr: 0.002 -> 0.5\n"));
  CHECK(contains(changed.err,
                 finished.workdir +
                     ": error: the run there finished with another lr, so nothing is trained; "
                     "choose another --workdir, or raise the length of the run and add "
                     "--accept-changes\n"));
  // Harmless changes are also reported.
  const Finished harmless = finished.again({"input.threads=1", "log_training_steps=2"});
  CHECK(harmless.code == 0);
  CHECK(contains(harmless.err, "changed config: log_training_steps: 5 -> 2\n"));
}

TEST_CASE("a changed config is refused even if the finished run has saved no checkpoint") {
  const FinishedRun finished({"total_steps=0"});
  REQUIRE(std::filesystem::is_empty(finished.workdir + "/ckpt"));
  const Finished changed = finished.again({"total_steps=0", "evals.test.data.split=train"});
  INFO(changed.err);
  CHECK(changed.code == 2);
  CHECK(contains(changed.err, "changed config: evals.test.data.split: test -> train\n"));
  CHECK(contains(changed.err, "the run there finished with another evals.test.data.split, so"));
  // Harmless changes are also reported, and no others.
  const Finished harmless = finished.again({"total_steps=0", "log_training_steps=2"});
  INFO(harmless.err);
  CHECK(harmless.code == 0);
  CHECK(contains(harmless.err, "changed config: log_training_steps: 5 -> 2\n"));
  CHECK(count(harmless.err, "changed config: ") == 1);
}

TEST_CASE("the precision that `auto` was in a run may be named") {
  const FinishedRun finished;
  const auto run = nlohmann::json::parse(read_text(finished.workdir + "/run.json"));
  const auto used = run.at("precision").get<std::string>();
  const Finished same = finished.again({"precision=" + used});
  INFO(same.err);
  CHECK(same.code == 0);
  CHECK(contains(same.err, "changed config: precision: auto -> " + used + "\n"));
  const std::string other = used == "bf16" ? "float32" : "bf16";
  const Finished refused = finished.again({"precision=" + other});
  CHECK(refused.code == 2);
  CHECK(contains(refused.err, "changed config: precision: auto -> " + other + "\n"));
}

TEST_CASE("data that has changed is told, also if the checkpoint does not hold its size") {
  const FinishedRun finished;
  const std::string folder = finished.workdir + "/ckpt/step-10";
  Manifest manifest = read_manifest(folder);
  const auto again = [&] {
    write(folder + "/manifest.json", manifest.text());
    return finished.again({});
  };
  manifest.meta["data"]["input"] = "0123456789abcdef";
  const Finished labels = again();
  CHECK(labels.code == 2);
  CHECK(contains(labels.err,
                 "changed config: input.data: 1,437 examples -> 1,437 examples with other labels, "
                 "class names or order\n"));
  CHECK(contains(labels.err, "finished with another input.data (other examples), so nothing"));
  manifest.meta["data"].erase("examples");  // as checkpoints of earlier versions
  const Finished older = again();
  CHECK(older.code == 2);
  CHECK(contains(older.err, "changed config: input.data: other data -> 1,437 examples\n"));
}

TEST_CASE("other data behind another path is told, even if it has as many examples") {
  const TempFolder dir;
  const auto write_images = [&](const std::string& name, int64_t n, uint64_t seed) {
    const auto generator = at::detail::createCPUGenerator(seed);
    write_npz(dir / name, {{"image", at::randint(256, {n, 6, 6, 1}, generator).to(at::kByte)},
                           {"label", at::randint(2, {n}, generator).to(at::kLong)}});
    return dir / name;
  };
  const std::string train = write_images("train.npz", 256, 1);
  const std::string test = write_images("test.npz", 60, 2);
  const std::string config = dir / "c.yaml";
  write(config, fmt::format(kArrayConfig, train, test));
  const auto start = [&](const std::string& workdir, const std::vector<std::string>& values) {
    std::vector<std::string> args = {"--config", config, "--workdir", dir / workdir};
    for (const std::string& value : values) args.insert(args.end(), {"--set", value});
    return run(args);
  };
  REQUIRE(start("w", {}).code == 0);
  std::filesystem::copy_file(train, dir / "copy.npz");
  CHECK(start("w", {"input.data.fname=" + (dir / "copy.npz")}).code == 0);
  const Finished input = start("w", {"input.data.fname=" + write_images("other.npz", 256, 3)});
  CHECK(input.code == 2);
  CHECK(contains(input.err, "changed config: input.data: 256 examples -> 256 examples with other"));
  const Finished eval =
      start("w", {"evals.test.data.fname=" + write_images("other_test.npz", 60, 4)});
  CHECK(eval.code == 2);
  CHECK(contains(eval.err,
                 "evals.test.data: 60 examples -> 60 examples with other labels, class names or "
                 "order\n"));
}

TEST_CASE("other values in an evaluator's file of arrays are told") {
  const TempFolder folder;
  const std::string file = folder / "pairs.npz";
  const auto write_pairs = [&](float text) {
    write_npz(file, {{"zimg", at::eye(4)}, {"ztxt", at::full({4, 4}, text)}});
  };
  write_pairs(1);
  const std::vector<std::string> pairs = {"evals.pairs={type: contrastive, file: '" + file +
                                          "', log_steps: 5}"};
  const FinishedRun finished(pairs);
  CHECK(finished.again(pairs).code == 0);
  const std::string copy = folder / "copy.npz";
  std::filesystem::copy_file(file, copy);
  CHECK(finished.again({pairs.front(), "evals.pairs.file=" + copy}).code == 0);
  write_pairs(2);
  CHECK(
      contains(finished.again(pairs).err,
               "changed config: evals.pairs.data: 4 examples -> 4 examples with other content\n"));
  const std::string folder_10 = finished.workdir + "/ckpt/step-10";
  Manifest manifest = read_manifest(folder_10);
  manifest.meta["data"]["content"]["evals.pairs"] = "0000000000000000";  // an earlier version's
  write(folder_10 + "/manifest.json", manifest.text());
  CHECK_FALSE(contains(finished.again(pairs).err, "evals.pairs"));
}

TEST_CASE("a changed config is refused even if the only checkpoint must be renamed back first") {
  const FinishedRun finished;
  // A process was killed while it replaced the checkpoint.
  const std::string step = finished.workdir + "/ckpt/step-10";
  std::filesystem::rename(step, finished.workdir + "/ckpt/.old-step-10");
  for (const char* file : {"/DONE", "/result.json"})
    REQUIRE(std::filesystem::remove(finished.workdir + file));
  write(finished.workdir + "/.lock", "12345 " + host_name() + " - 0000000003\n");
  const Finished refused = finished.again({"lr=0.5"});
  INFO(refused.err);
  CHECK(refused.code == 2);
  CHECK(contains(refused.err,
                 step + " is back: a process was killed while it replaced this checkpoint\n"));
  CHECK(contains(refused.err, "changed config: lr: 0.002 -> 0.5\n"));
  CHECK(contains(refused.err, "error: the run there was started with another lr; add"));
}

TEST_CASE("a run does not continue what another command has trained since it looked") {
  const TempFolder dir;
  const std::string data = dir / "train.npz";
  write_npz(data, {{"image", at::zeros({64, 6, 6, 1}, at::kByte)},
                   {"label", at::arange(64).remainder(2)}});
  write(dir / "c.yaml", fmt::format(kArrayConfig, data, data));
  const auto arguments = [&](const std::string& lr) {
    return std::vector<std::string>{"--config", dir / "c.yaml", "--workdir",
                                    dir / "w",  "--set",        "lr=" + lr};
  };
  OpenWatch watch(data);
  Child late(arguments("0.5"), {{"BVTRAIN_SLEEP_AT", "start.load:1:5"}});
  int opened = 0;  // after it has looked for checkpoints
  REQUIRE(wait_until([&] { return (opened += watch.count()) > 0; }));
  late.kill(SIGSTOP);
  CHECK(run(arguments("0.002")).code == 0);
  late.kill(SIGCONT);
  const Finished refused = late.wait();
  INFO(refused.err);
  CHECK(refused.code == 7);
  CHECK(contains(refused.err,
                 "w: error: its checkpoints changed while this run started; run the same command "
                 "again\n"));
}

TEST_CASE("a checkpoint that does not hold the size of its data continues") {
  const FinishedRun finished;
  const std::string folder = finished.workdir + "/ckpt/step-10";
  Manifest manifest = read_manifest(folder);
  manifest.meta["data"].erase("examples");
  write(folder + "/manifest.json", manifest.text());
  const Finished again = finished.again({});
  INFO(again.err);
  CHECK(again.code == 0);
  CHECK_FALSE(contains(again.err, "input.data"));
}

TEST_CASE("a changed config continues only with --accept-changes, and the old one is kept") {
  const FinishedRun finished;
  const std::string before = read_text(finished.workdir + "/config.yaml");
  const std::string metrics = read_text(finished.workdir + "/metrics.jsonl");
  const std::vector<std::string> changes = {"total_steps=20", "lr=0.001", "input.batch_size=32"};
  const Finished refused = finished.again(changes);
  CHECK(refused.code == 2);
  for (const char* line :
       {"lr: 0.002 -> 0.001", "total_steps: 10 -> 20", "input.batch_size: 64 -> 32"})
    CHECK(contains(refused.err, "changed config: " + std::string(line) + "\n"));
  CHECK(contains(refused.err, "error: the run there was started with another"));
  CHECK(contains(refused.err, "add --accept-changes to continue it with the new values"));
  CHECK(read_text(finished.workdir + "/config.yaml") == before);
  CHECK(read_text(finished.workdir + "/metrics.jsonl") == metrics);

  const std::string folder = finished.workdir + "/ckpt/step-10";
  Manifest manifest = read_manifest(folder);
  manifest.meta["commit"] = "0123456789ab";
  write(folder + "/manifest.json", manifest.text());
  const Finished accepted = finished.again(changes, {"--accept-changes"});
  INFO(accepted.err);
  REQUIRE(accepted.code == 0);
  const auto version = manifest.meta["tool_version"].get<std::string>();
  CHECK(contains(accepted.err,
                 fmt::format("warning: the checkpoint is from bvtrain {0} (0123456789ab), this is "
                             "bvtrain {0}",
                             version)));
  CHECK(read_text(finished.workdir + "/config-until-step-10.yaml") == before);
  CHECK(contains(read_text(finished.workdir + "/config.yaml"), "lr: 0.001"));
  // Examples and epochs continue from where they were: 10 steps of 64, then 10 of 32.
  const std::vector<TextRow> rows = metric_rows(finished.workdir);
  for (size_t i = 1; i < rows.size(); ++i) {
    if (!rows[i].contains("epoch") || !rows[i - 1].contains("epoch")) continue;
    CHECK(number_in_row(rows[i], "epoch") >= number_in_row(rows[i - 1], "epoch"));
    CHECK(number_in_row(rows[i], "examples_seen") >= number_in_row(rows[i - 1], "examples_seen"));
  }
  CHECK(number_in_row(rows.back(), "examples_seen") == 960);
  CHECK(number_in_row(rows.back(), "epoch") == Approx(960 / 1437.0));
}

}  // namespace bv::test
