// bvtrain replay, and the folders that bad steps leave for it, with the real binary.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "lib/ckpt/workdir/workdir.h"
#include "test/e2e/bad_steps.h"
#include "test/support/image_files.h"

namespace bv::test {
namespace {

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
  CHECK(contains(finished.err, f.workdir + ": error: its newest checkpoint belongs to the last "
                                           "step, 14: there is nothing to repeat\n"));
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

TEST_CASE("a run that diverges before its first checkpoint promises no replay") {
  TempFolder dir;
  const std::string workdir = dir / "w";
  const Finished diverged = run(diverging(
      workdir, {"nan=stop", "optax_name=scale_by_adam", "lr=1e30", "evals=null", "schedule={}"}));
  INFO(diverged.err);
  REQUIRE(diverged.code == 4);
  const std::string folder = only_entry(workdir + "/post-mortem");
  CHECK(folder.ends_with("/step-1"));
  CHECK(contains(diverged.err, "[1] the bad step's batch and its examples' names are in " + folder +
                                   "; there is no checkpoint yet from which `bvtrain replay` "
                                   "could repeat it\n"));
  CHECK(contains(run({"replay", folder}).err, "from its last checkpoint, if it has one\n"));
  CHECK(run({"replay", "--workdir", workdir}).code == 2);
}

TEST_CASE("a bad step leaves a folder from which it can be repeated without data or checkpoints") {
  for (const std::string nan : {"stop", "skip", "rollback"}) {
    for (const int ranks : {1, 2}) {
      INFO(nan << ", " << ranks << " ranks");
      const PoisonedRun f;
      const Finished trained =
          f.train({"--devices", fmt::format("cpu:{}", ranks), "--set", "nan=" + nan, "--set",
                   "mixup={p: 0.2}", "--set", "log_training_steps=4", "--set",
                   // A run that fails does not wait for its saves. But the save of step 3 waits
                   // for the save of step 1, so there is a checkpoint when step 5 is bad.
                   nan == "stop" ? "ckpt_steps=1" : "ckpt_steps=3"});
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
