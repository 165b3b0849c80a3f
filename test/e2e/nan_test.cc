// nan: skip and rollback, with the real binary: the run reports each bad step, counts them over
// restarts, and ends when there are too many.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "lib/ckpt/formats/npz.h"
#include "lib/ckpt/workdir/workdir.h"
#include "test/support/binary.h"
#include "test/support/image_files.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

// A learning rate that overflows after a few steps: from then on every step is bad.
std::vector<std::string> diverging(const std::string& workdir,
                                   const std::vector<std::string>& values) {
  std::vector<std::string> args = {"--config", source_file("configs/digits_cnn.yaml"), "--workdir",
                                   workdir};
  std::vector<std::string> all = {"total_epochs=null", "total_steps=12", "log_training_steps=1",
                                  "schedule=null",     "optax_name=sgd", "optax=null",
                                  "lr=1e12",           "ckpt_steps=2",   "nan=skip"};
  all.insert(all.end(), values.begin(), values.end());
  for (const std::string& value : all) args.insert(args.end(), {"--set", value});
  return args;
}

// A run on 640 images of an npz file, one of which is NaN.
struct PoisonedRun {
  TempFolder dir;
  std::string workdir = dir / "w";

  PoisonedRun() {
    const at::Tensor image = at::arange(640 * 64, at::kFloat).reshape({640, 8, 8, 1}).sin();
    image[300][2][2] = std::nanf("");
    write_npz(dir / "d.npz",
              {{"image", image}, {"label", at::arange(640, at::kLong).remainder(10)}});
    write(dir / "c.yaml", R"(
num_classes: 10
total_steps: 14
log_training_steps: 1
ckpt_steps: 3
input:
  data: {name: npz, fname: DATA}
  batch_size: 64
  pp: onehot(10, key="label", key_result="labels")|keep("image", "labels")
model_name: cnn
model: {widths: [4]}
loss: softmax_xent
optax_name: scale_by_adam
lr: 0.01
nan: rollback
compute_threads: 1
)");
  }
  Finished train(const std::vector<std::string>& flags, const Environment& environment = {}) const {
    std::vector<std::string> args = {"--config",  dir / "c.yaml",
                                     "--workdir", workdir,
                                     "--set",     "input.data.fname=" + (dir / "d.npz")};
    args.insert(args.end(), flags.begin(), flags.end());
    return run(args, environment);
  }
  std::string state(int shards) const {
    std::string all;
    for (int i = 0; i < shards; ++i)
      all += read_text(
          fmt::format("{}/ckpt/step-14/state-{:05}-of-{:05}.safetensors", workdir, i, shards));
    return all;
  }
  nlohmann::json rollbacks() const {
    return nlohmann::json::parse(read_text(workdir + "/run.json")).at("rollbacks");
  }
};

// Returns the path of the only file or folder in `folder`.
std::string only_entry(const std::string& folder) {
  REQUIRE(exists(folder));
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    found.push_back(entry.path());
  REQUIRE(found.size() == 1);
  return found[0];
}

void flip_byte(const std::string& file, size_t at) {
  std::string bytes = read_text(file);
  REQUIRE(at < bytes.size());
  bytes[at] = static_cast<char>(~bytes[at]);
  write(file, bytes);
}

}  // namespace

TEST_CASE("skipped steps are told, counted over restarts, and limited") {
  for (const std::string devices : {"cpu", "cpu:2"}) {
    INFO(devices);
    TempFolder dir;
    const std::string workdir = dir / "w";
    const auto train = [&](const std::string& limit) {
      std::vector<std::string> args =
          diverging(workdir, {"nan_limit=" + limit, "sharding_strategy=zero1"});
      args.insert(args.end(), {"--devices", devices});
      return run(args);
    };
    const Finished ended = train("3");
    INFO(ended.err);
    CHECK(ended.code == 4);
    CHECK(contains(ended.err, "the step is skipped: the loss is "));
    CHECK(contains(ended.err, "(3 of at most 3)"));
    CHECK(contains(ended.err, " 3 steps were skipped before, as many as nan_limit allows"));
    const std::vector<TextRow> rows = metric_rows(workdir);
    CHECK(rows.back().at("skipped_steps") == "3");
    // It continues from the checkpoint of step 4, before which it has skipped three steps.
    const Finished again = train("5");
    INFO(again.err);
    CHECK(again.code == 4);
    CHECK(contains(again.err, "(4 of at most 5)"));
    CHECK(contains(again.err, "step 7: the loss is "));
    CHECK(metric_rows(workdir).back().at("skipped_steps") == "5");
  }
}

TEST_CASE(
    "a run returns to its last checkpoint and leaves the bad examples out, also after a kill") {
  for (const int ranks : {1, 2}) {
    INFO(ranks);
    const std::vector<std::string> flags = {"--devices", fmt::format("cpu:{}", ranks), "--set",
                                            "sharding_strategy=zero1"};
    const int shards = ranks;
    const PoisonedRun whole;
    const Finished finished = whole.train(flags);
    INFO(finished.err);
    REQUIRE(finished.code == 0);
    const nlohmann::json back = whole.rollbacks();
    REQUIRE(!back.empty());
    const int64_t bad = back[0].at("step"), to = back[0].at("to");
    CHECK(to < bad);
    CHECK(back[0].at("examples") == (bad - to) * 64);
    CHECK(contains(
        finished.err,
        fmt::format(
            "the run returns to step {} and skips {} training examples (1 of at most 10 times)", to,
            (bad - to) * 64)));
    const std::vector<TextRow> rows = metric_rows(whole.workdir);
    CHECK(rows.size() == 15);  // 0 .. 14, each once
    CHECK(rows.back().at("rollbacks") == std::to_string(back.size()));
    // Examples that were left out were not seen.
    CHECK(rows.back().at("examples_seen") == std::to_string(14 * 64));
    CHECK(std::stod(rows.back().at("epoch")) == Approx(14 * 64 / 640.0));
    for (const TextRow& row : rows)
      CHECK((!row.contains("training_loss") || std::isfinite(std::stod(row.at("training_loss")))));
    // The return is no start of its own.
    const auto result = nlohmann::json::parse(read_text(whole.workdir + "/result.json"));
    CHECK(result.at("first_step") == 0);
    CHECK(result.at("total_wall_seconds") == result.at("wall_seconds"));
    CHECK(result.at("total_training_seconds") == result.at("training_seconds"));
    CHECK_FALSE(contains(finished.err, "since the restart"));

    // Killed right after the return to step `to`, before a checkpoint records it.
    const PoisonedRun killed;
    // Step 1, every third, the bad step's folder if the state is whole, and the next one.
    const int saved = static_cast<int>(to / 3) + 2 + (ranks == 1 ? 1 : 0);
    CHECK(
        killed.train(flags, {{"BVTRAIN_CRASH_AT", fmt::format("ckpt.manifest_written:{}", saved)}})
            .code != 0);
    CHECK(killed.rollbacks().size() == 1);
    const Finished again = killed.train(flags);
    INFO(again.err);
    REQUIRE(again.code == 0);
    CHECK(killed.state(shards) == whole.state(shards));
    CHECK(repeatable_rows(killed.workdir) == repeatable_rows(whole.workdir));
  }
}

TEST_CASE("a run that may not return to a checkpoint, or has none, ends as diverged") {
  const PoisonedRun f;
  const Finished ended = f.train({"--set", "nan_limit=0"});
  CHECK(ended.code == 4);
  CHECK(contains(ended.err,
                 "; the run has returned to a checkpoint 0 times, as often as nan_limit allows\n"));
  const PoisonedRun given;
  CHECK(given.train({"--set", "rollback_examples=640"}).code == 0);
  CHECK(given.rollbacks().at(0).at("examples") == 640);
  // The checkpoint knows what was left out, and that the batch size was always the same.
  const Finished longer = given.train(
      {"--set", "rollback_examples=640", "--set", "total_steps=15", "--accept-changes"});
  INFO(longer.err);
  CHECK(longer.code == 0);
  CHECK_FALSE(contains(longer.err, "had another batch size"));
  CHECK(std::stod(metric_rows(given.workdir).back().at("epoch")) == Approx(15 * 64 / 640.0));
  const PoisonedRun none;
  CHECK(contains(none.train({"--set", "ckpt_steps=null"}).err,
                 "nan: rollback needs checkpoints to return to; add ckpt_steps\n"));
  const Finished unsaved =
      run({"--config", none.dir / "c.yaml", "--set", "input.data.fname=" + (none.dir / "d.npz")});
  CHECK(unsaved.code == 2);
  CHECK(contains(unsaved.err,
                 "nan: rollback: error: needs a --workdir for the checkpoints to "
                 "return to\n"));
}

TEST_CASE("bvtrain replay finds the step, the examples and the activation that are not finite") {
  const PoisonedRun f;
  const Finished diverged = f.train({"--set", "nan=stop"});
  REQUIRE(diverged.code == 4);
  const std::string rows = read_text(f.workdir + "/metrics.jsonl");
  const Finished found = run({"replay", "--workdir", f.workdir});
  INFO(found.out << found.err);
  REQUIRE(found.code == 4);
  CHECK(contains(found.out, ": the loss is nan; "));
  CHECK(contains(found.out, "inputs that are not finite: "));
  CHECK(contains(found.out, "row 300 (image)"));
  CHECK(contains(found.out, "the first activation that is not finite in float32: conv_0\n"));
  CHECK(read_text(f.workdir + "/metrics.jsonl") == rows);  // the run stays as it was
  const std::string step = found.out.substr(5, found.out.find(':') - 5);
  CHECK(contains(diverged.err, "step " + step));
  const std::string folder = f.workdir + "/post-mortem/step-" + step;
  const auto report = nlohmann::json::parse(read_text(folder + "/report.json"));
  CHECK(report.at("examples").size() == 64);
  CHECK(report.at("bad_examples").size() == 1);
  CHECK(report.at("parameter_norms").size() >= 4);
  CHECK(read_npz(folder + "/batch.npz").at("image").sizes() == at::IntArrayRef{64, 8, 8, 1});

  {  // while the run is going, its folder is not changed
    Workdir held(f.workdir);
    held.claim();
    const auto written = std::filesystem::last_write_time(folder + "/report.json");
    const Finished beside = run({"replay", "--workdir", f.workdir, "--json"});
    CHECK(beside.code == 4);
    CHECK(nlohmann::json::parse(beside.out) == report);
    CHECK(contains(beside.err, folder + " is not written: " + f.workdir +
                                   ": error: the workdir is in use by process "));
    CHECK(std::filesystem::last_write_time(folder + "/report.json") == written);
  }
  // The weights that it has written give the same result.
  const Finished folder_again = run({"replay", folder, "--json"});
  INFO(folder_again.err);
  CHECK(nlohmann::json::parse(folder_again.out) == report);
  REQUIRE(f.train({}).code == 0);  // with nan: rollback
  const Finished finished = run({"replay", "--workdir", f.workdir, "--steps", "1"});
  CHECK(finished.code == 2);
  CHECK(contains(finished.err, f.workdir + ": error: its newest checkpoint is of the last step, "
                                           "14: there is nothing to repeat\n"));
  CHECK(contains(run({"replay", "--workdir", f.dir / "none"}).err,
                 "has no checkpoint from which the run could be repeated\n"));
}

TEST_CASE("bvtrain replay names a step of which only the update is not finite") {
  TempFolder dir;
  const std::string workdir = dir / "w";
  // Step 1 changes nothing, because the learning rate starts at 0. The square of the next update
  // overflows.
  const Finished diverged =
      run(diverging(workdir, {"nan=stop", "optax_name=scale_by_adam", "lr=1e30", "evals=null",
                              "schedule={decay_type: cosine, warmup_steps: 4}"}));
  INFO(diverged.err);
  REQUIRE(diverged.code == 4);
  CHECK(contains(diverged.err, "first at step 2"));
  const Finished found = run({"replay", "--workdir", workdir});
  INFO(found.out << found.err);
  CHECK(found.code == 4);
  CHECK(contains(found.out,
                 "step 2: l2_updates is not finite, but the loss and the gradients are\n"));
  CHECK(contains(found.out, "the gradients are finite: the update is too large; lower lr, "));
  const std::string folder = only_entry(workdir + "/post-mortem");
  CHECK(folder.ends_with("/step-2"));
  const auto report = nlohmann::json::parse(read_text(folder + "/report.json"));
  CHECK(report.at("update") == true);
  // The weights in it are those before the step, and give the same result.
  for (const auto& [name, norm] : report.at("parameter_norms").items())
    CHECK(norm.get<double>() < 1e6);
  const Finished again = run({"replay", folder, "--json"});
  INFO(again.err);
  CHECK(nlohmann::json::parse(again.out) == report);
}

TEST_CASE("a bad step leaves a folder from which it can be repeated without data or checkpoints") {
  for (const std::string nan : {"stop", "skip", "rollback"}) {
    for (const int ranks : {1, 2}) {
      INFO(nan << ", " << ranks << " ranks");
      const PoisonedRun f;
      const Finished trained =
          f.train({"--devices", fmt::format("cpu:{}", ranks), "--set", "nan=" + nan, "--set",
                   "mixup={p: 0.2}", "--set", "log_training_steps=4"});
      INFO(trained.err);
      REQUIRE(trained.code == (nan == "stop" ? 4 : 0));
      const std::string folder = only_entry(f.workdir + "/post-mortem");
      const std::string step = folder.substr(folder.rfind('-') + 1);
      CHECK(contains(trained.err, fmt::format("[{}] the bad step's batch, its examples' names and "
                                              "the weights before it are in {}",
                                              step, folder)));
      auto written = nlohmann::json::parse(read_text(folder + "/report.json"));
      CHECK(written.at("step") == std::stoi(step));
      CHECK(written.at("examples").size() == 64);
      REQUIRE(written.at("bad_examples").size() == 1);
      CHECK(contains(written.at("bad_examples")[0].get<std::string>(), "row 300 (image)"));
      CHECK(read_npz(folder + "/batch.npz").at("image").sizes() == at::IntArrayRef{64, 8, 8, 1});

      if (nan == "stop") {  // the run from its last checkpoint finds the same
        const NamedTensors batch = read_npz(folder + "/batch.npz");
        const Finished whole = run({"replay", "--workdir", f.workdir, "--json"});
        INFO(whole.err);
        CHECK(nlohmann::json::parse(whole.out).at("bad_examples") == written.at("bad_examples"));
        for (const auto& [name, values] : read_npz(folder + "/batch.npz"))
          CHECK(at::allclose(values, batch.at(name), 0, 0, /*equal_nan=*/true));
      }
      std::filesystem::remove(f.dir / "d.npz");
      std::filesystem::rename(f.workdir + "/ckpt", f.workdir + "/away");
      const Finished found = run({"replay", folder});
      INFO(found.out << found.err);
      CHECK(found.code == 4);
      CHECK(contains(found.out, "step " + step + ": the loss is nan; "));
      CHECK(contains(found.out, "the first activation that is not finite in float32: conv_0\n"));
      CHECK(contains(found.out, "the largest parameter before the step: "));
      const auto repeated = nlohmann::json::parse(run({"replay", folder, "--json"}).out);
      REQUIRE(repeated.at("parameter_norms").size() == written.at("parameter_norms").size());
      for (const auto& [name, length] : written.at("parameter_norms").items())
        CHECK(repeated.at("parameter_norms").at(name).get<double>() ==
              Approx(length.get<double>()).epsilon(1e-5));

      const std::string whole_batch = read_text(folder + "/batch.npz");
      write_npz(folder + "/batch.npz", {{"labels", at::ones({64, 10})}});
      CHECK(contains(run({"replay", folder}).err,
                     "/batch.npz: error: its checksum is not the one in weights/: the file was "
                     "changed\n"));
      write(folder + "/batch.npz", whole_batch);
      flip_byte(folder + "/weights/state-00000-of-00001.safetensors", 200);
      const Finished damaged = run({"replay", folder});
      CHECK(damaged.code == 2);
      CHECK(contains(damaged.err, folder + "/weights"));
    }
  }
}

TEST_CASE(
    "of a bad step whose batch is large only the names are saved, and replay reads it again") {
  for (const int ranks : {1, 2}) {
    INFO(ranks << " ranks");
    const PoisonedRun f;
    const Finished trained =
        f.train({"--devices", fmt::format("cpu:{}", ranks), "--set", "nan=skip"},
                {{"BVTRAIN_BATCH_LIMIT", "1000"}});
    INFO(trained.err);
    REQUIRE(trained.code == 0);
    const std::string folder = only_entry(f.workdir + "/post-mortem");
    CHECK(contains(trained.err,
                   "the names of the bad step's examples and the weights before it are in " +
                       folder + ", but not its batch (64 images of 8x8x1 take "));
    CHECK_FALSE(exists(folder + "/batch.npz"));
    const auto written = nlohmann::json::parse(read_text(folder + "/report.json"));
    CHECK(contains(written.at("batch_left_out").get<std::string>(), "64 images of 8x8x1 take "));
    CHECK(written.at("examples").size() == 64);
    CHECK(written.at("bad_examples").empty());

    const Finished found = run({"replay", folder});
    INFO(found.out << found.err);
    CHECK(found.code == 4);
    CHECK(contains(found.out, "inputs that are not finite: "));
    CHECK(contains(found.out, "row 300 (image)"));
    CHECK(contains(found.out, "the first activation that is not finite in float32: conv_0\n"));
    if (ranks == 1) continue;
    write_npz(f.dir / "d.npz", {{"image", at::ones({500, 8, 8, 1})},
                                {"label", at::arange(500, at::kLong).remainder(10)}});
    const Finished changed = run({"replay", folder});
    CHECK(changed.code == 2);
    CHECK(contains(changed.err,
                   "/weights: error: the run did not save the step's batch, and its "
                   "data have other examples now\n"));
  }
}

TEST_CASE("bad steps: three folders are kept, and names that are not UTF-8 do no harm") {
  TempFolder dir;
  const Finished ended = run(diverging(dir / "w", {"nan_limit=6"}));
  INFO(ended.err);
  CHECK(ended.code == 4);
  CHECK(contains(ended.err, "the bad step is not saved: " + (dir / "w/post-mortem") +
                                " has 3 folders already"));
  int64_t folders = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir / "w/post-mortem"))
    folders += entry.is_directory() ? 1 : 0;
  CHECK(folders == 3);

  // The names of these images are not UTF-8. The learning rate makes the loss overflow.
  for (const char* name : {"a/\xff 1.png", "b/\xff 2.png"}) {
    const std::vector<uint8_t> pixels(64, name[0] == 'a' ? 10 : 200);
    write(dir / ("f/" + std::string(name)), encode_png(pixels, 8, 8, SPNG_COLOR_TYPE_GRAYSCALE, 8));
  }
  const Finished names = run(diverging(
      dir / "n", {"nan_limit=3", "evals=null", "num_classes=2",
                  "input={data: {name: image_folder, data_dir: " + (dir / "f") +
                      "}, batch_size: 2, pp: 'decode(1)|value_range(-1, 1)|onehot(2, "
                      "key=\"label\", key_result=\"labels\")|keep(\"image\", \"labels\")'}"}));
  INFO(names.err);
  CHECK(names.code == 4);
  CHECK(contains(names.err, "the bad step's batch, its examples' names"));
}

TEST_CASE("replay: a value of the loss or of a gradient, and folders that hold no step") {
  TempFolder dir;
  // The loss overflows in its square, and so do the gradients.
  const at::Tensor targets = at::full({64, 1}, 1e30F);
  write_npz(dir / "d.npz", {{"image", at::ones({64, 8, 8, 1})}, {"labels", targets}});
  write(dir / "c.yaml", fmt::format(R"(
num_classes: 1
total_steps: 4
log_training_steps: 4
input:
  data: {{name: npz, fname: {}}}
  batch_size: 64
  pp: keep("image", "labels")
model_name: cnn
model: {{widths: [4]}}
task: regress
task_kw: {{normalize_targets: false}}
optax_name: sgd
lr: 0.01
)",
                                    dir / "d.npz"));
  const std::string workdir = dir / "w";
  const Finished trained = run({"--config", dir / "c.yaml", "--workdir", workdir});
  INFO(trained.err);
  REQUIRE(trained.code == 4);
  const Finished found = run({"replay", workdir + "/post-mortem/step-1"});
  INFO(found.out << found.err);
  CHECK(found.code == 4);
  CHECK(contains(found.out, "in float32 all activations are finite, but the loss is inf\n"));

  CHECK(contains(
      run({"replay", workdir}).err,
      workdir + ": error: is not the folder of a bad step, such as D/post-mortem/step-12\n"));
  std::filesystem::remove_all(workdir + "/post-mortem/step-1/weights");
  CHECK(contains(run({"replay", workdir + "/post-mortem/step-1"}).err, "has no weights: "));
  CHECK(contains(run({"replay", workdir, "--set", "lr=1"}).err,
                 "--set: error: applies to `replay --workdir` only; leave it out with the folder "
                 "of a step\n"));
  CHECK(contains(run({"replay"}).err, "give --workdir, or the folder of a bad step"));
}

}  // namespace bv::test
