// --dry-run checks what the run would start from: model_init, resume or the workdir's checkpoint.
// Also jobs of many processes, and flags of the launch.
#include <ATen/ATen.h>

#include <filesystem>

#include "lib/ckpt/formats/npz.h"
#include "test/e2e/bad_input.h"
#include "test/support/limits.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

// A short run of the digits config in dir/w, and its weights in dir/m.npz.
struct TwoStepRun {
  TempFolder dir;
  const std::string config = without_evals(read_file(source_file("configs/digits_cnn.yaml")));

  TwoStepRun() {
    write(dir / "c.yaml", config);
    REQUIRE(start({"--workdir", dir / "w", "--set", "total_epochs=null", "--set", "total_steps=2"})
                .code == 0);
    REQUIRE(run({"export", "--workdir", dir / "w", "--format", "npz", "--output", dir / "m.npz"})
                .code == 0);
  }
  Finished start(std::vector<std::string> more) {
    more.insert(more.begin(), {"--config", dir / "c.yaml"});
    return run(more);
  }
  Finished dry(std::vector<std::string> more) {
    more.push_back("--dry-run");
    return start(more);
  }
};

// Returns the summary line about what the run starts from.
std::string start_of(const Finished& finished) {
  INFO(finished.err);
  CHECK(finished.code == 0);
  const size_t at = finished.out.find("start       ");
  REQUIRE(at != std::string::npos);
  return finished.out.substr(at + 12, finished.out.find('\n', at) - at - 12);
}

}  // namespace

TEST_CASE("--dry-run says what the run would start from") {
  TwoStepRun run;
  const std::string w = run.dir / "w", m = run.dir / "m.npz";
  CHECK(start_of(run.dry({})) == "from scratch");
  CHECK(start_of(run.dry({"--set", "model_init=" + m})) == "model_init " + m + ": all arrays fit");
  CHECK(start_of(run.dry({"--set", "model_init=" + m, "--synthetic"})) ==
        "model_init " + m + ": all arrays fit");
  CHECK(start_of(run.dry({"--set", "resume=" + m})) ==
        "resume " + m + ": all arrays fit (parameters only)");
  CHECK(start_of(run.dry({"--set", "resume=" + w})) ==
        "resume " + w + "/ckpt/step-2: the checkpoint of step 2 fits");
  // A workdir with a checkpoint ignores model_init, even if the file is gone.
  CHECK(start_of(run.dry({"--workdir", w, "--set", "model_init=gone.npz", "--accept-changes"})) ==
        w + "/ckpt/step-2: the checkpoint of step 2 fits");
  CHECK(start_of(run.dry({"--workdir", run.dir / "none", "--set", "model_init=" + m})) ==
        "model_init " + m + ": all arrays fit");
  CHECK(!exists(run.dir / "none"));
  // Another host may have what the link names.
  const std::string link = run.dir / "link";
  std::filesystem::create_symlink(run.dir / "nowhere", link);
  const Finished elsewhere = run.dry({"--workdir", link + "/w"});
  CHECK(start_of(elsewhere) == "from scratch");
  CHECK(contains(elsewhere.err, link + "/w: error: cannot be the workdir: " + link +
                                    " is a broken symbolic link; a run on this host would end "
                                    "with code 2\n"));
}

TEST_CASE("--dry-run warns of an evaluator whose images have another scale") {
  const std::string labels = "|onehot(10, key=\"label\", key_result=\"labels\")";
  const auto err_of = [&](const std::string& scale) {
    const Finished dry = run({"--config", source_file("configs/digits_cnn.yaml"), "--dry-run",
                              "--set", "evals.test.pp_fn=" + scale + labels});
    CHECK(dry.code == 0);
    return dry.err;
  };
  CHECK(contains(err_of("value_range(0, 1)"),
                 "warning: evals.test.pp_fn: makes images with values from 0 to 1, but those of "
                 "input.pp are from -1 to 1: scale the values of both in the same way\n"));
  CHECK_FALSE(contains(err_of("value_range(-1, 1)"), "scale the values"));
}

TEST_CASE("--dry-run refuses what the run would refuse at its start, with the same line") {
  TwoStepRun run;
  const auto refused = [&](const std::vector<std::string>& more) {
    const Finished dry = run.dry(more);
    std::vector<std::string> real = more;
    real.insert(real.end(), {"--workdir", run.dir / "v"});
    const Finished started = run.start(real);
    CHECK(dry.code == 2);
    CHECK(started.code == 2);
    CHECK(dry.out.empty());
    CHECK(!exists(run.dir / "v"));
    CHECK(started.err.ends_with(dry.err));  // after its lines about resuming
    return dry.err;
  };
  const std::string m = run.dir / "m.npz", ckpt = (run.dir / "w") + "/ckpt/step-2";
  CHECK(refused({"--set", "model_init=" + m, "--set", "model.dense=128"}) ==
        m + ": error: Dense_0/bias has shape (256) in the file but (128) in the model; "
            "Dense_0/kernel has shape (256, 256) in the file but (256, 128) in the model; "
            "head/kernel has shape (256, 10) in the file but (128, 10) in the model (model_load: "
            "{dont_load: [PATTERN, ...]} leaves names out)\n");
  const std::string other = refused({"--set", "resume=" + ckpt, "--set", "optax_name=sgd"});
  CHECK(other.starts_with(ckpt + ": error: does not fit this config: "));
  CHECK(other.find("unexpected opt/") != std::string::npos);
  CHECK(other.ends_with("; a run with this config can only start from the weights: 'model_init: " +
                        ckpt + "' in a new workdir\n"));
  CHECK(refused(
            {"--set", "resume=" + ckpt, "--set", "total_epochs=null", "--set", "total_steps=1"}) ==
        ckpt + ": error: this checkpoint is at step 2, after the 1 steps of this run\n");
  CHECK(refused({"--set", "resume=" + ckpt, "--set", "ema=null"}).find("unexpected ema/") !=
        std::string::npos);
  const std::string file = run.dir / "c.yaml";
  for (const std::vector<std::string>& more : {std::vector<std::string>{"--dry-run"}, {}}) {
    std::vector<std::string> args = more;
    args.insert(args.end(), {"--workdir", file + "/w"});
    CHECK(run.start(args).err ==
          file + "/w: error: cannot be the workdir: " + file + " is not a folder\n");
  }
}

TEST_CASE("--dry-run of a finished run says what its start says") {
  TwoStepRun run;
  const auto args = [&](const std::string& lr) {
    return std::vector<std::string>{"--workdir", run.dir / "w",   "--set", "total_epochs=null",
                                    "--set",     "total_steps=2", "--set", "lr=" + lr};
  };
  const std::string end = "finished already, at step 2";
  CHECK(start_of(run.dry(args("0.002"))) == "nothing to train: the run " + end);
  CHECK(contains(run.start(args("0.002")).err, "The run in " + (run.dir / "w") + " " + end + "\n"));
  const Finished dry = run.dry(args("0.5"));
  CHECK(dry.code == 2);
  CHECK(dry.out.empty());
  CHECK(contains(dry.err, "changed config: lr: 0.002 -> 0.5\n"));
  const std::string refusal =
      (run.dir / "w") +
      ": error: the run there finished with another lr, so nothing is trained; "
      "choose another --workdir, or raise the length of the run and add "
      "--accept-changes\n";
  CHECK(dry.err.ends_with(refusal));
  CHECK(run.start(args("0.5")).err.ends_with(refusal));
}

TEST_CASE("--dry-run of a large model checks its file by shapes alone") {
  TwoStepRun run;
  const std::string m = run.dir / "m.npz";
  write_npz(m, {{"params/head/kernel", at::zeros({3, 4})}});
  const Finished finished =
      run.dry({"--set", "model_name=vit", "--set", "model={variant: L/8}", "--set",
               "model_init=" + m, "--set", "model_load={dont_load: ['(?!head/kernel).*']}"});
  CHECK(finished.code == 2);
  CHECK(finished.err == m + ": error: head/kernel has shape (3, 4) in the file but (1024, 10) in "
                            "the model (model_load: {dont_load: [PATTERN, ...]} leaves names "
                            "out)\n");
  if (!kSanitized) CHECK(finished.peak_mib < 900);  // the weights alone would be 1160
}

// vit S/16 has 22,122,472 parameters of 4 bytes. A ring all-reduce sends them 2 * 63 / 64 times.
TEST_CASE("--dry-run checks a job of many processes without starting them") {
  const std::string config = source_file("configs/big_vision/vit_s16_i1k.yaml");
  const std::vector<std::string> args = {"--config", config, "--dry-run", "--synthetic"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), args.begin(), args.end());
    return run(more);
  };
  const std::string eight = "cuda:0,1,2,3,4,5,6,7";
  const Finished finished = with({"--devices", eight, "--nnodes", "8"});
  INFO(finished.err);
  CHECK(finished.code == 0);
  INFO(finished.out);
  CHECK(
      finished.out.find("processes   64: each computes 16 examples and sends 166.1 MiB per step") !=
      std::string::npos);
  const Finished sharded =
      with({"--devices", eight, "--nnodes", "8", "--set", "sharding_strategy=zero2"});
  INFO(sharded.out << sharded.err);
  CHECK(sharded.code == 0);
  CHECK(sharded.out.find("memory      87.7 MiB for") != std::string::npos);
  CHECK(finished.out.find("memory      295.4 MiB for") != std::string::npos);
  CHECK(with({"--devices", "cuda:7"}).out.find("processes") == std::string::npos);  // one GPU
  const Finished odd = with({"--devices", eight, "--nnodes", "6"});
  CHECK(odd.code == 2);
  CHECK(odd.err.find("Batch size (1024) must be divisible by device number (48)") !=
        std::string::npos);
}

TEST_CASE(
    "wrong launch flags are refused in the same way with and without --dry-run and --explain") {
  TempFolder dir;
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--launcher", "foo"},
       "--launcher foo: error: expected auto, none, self, env, slurm or mpi\n"},
      {{"--devices", "cpu:0"}, "--devices cpu:0: error: expected cpu:N with N from 1 to 1024\n"},
      {{"--nnodes", "0"}, "bvtrain: error: --nnodes: '0' is not an integer from 1 to 65536\n"},
      {{"--node-rank", "1"}, "--node-rank 1: error: must be below --nnodes, which is 1\n"},
      {{"--nnodes", "2", "--node-rank", "2"}, "--node-rank=2: error: must be below --nnodes=2\n"},
      {{"--rendezvous", "n0"},
       "--rendezvous n0: error: expected HOST:PORT with a port from 1 to 65535\n"},
      {{"--elastic", "3"}, "--elastic 3: error: expected MIN:MAX with 1 <= MIN <= MAX\n"},
      {{"--elastic", "1:2"}, "--elastic 1:2: error: needs --max-restarts N\n"}};
  for (const auto& [flags, line] : cases) {
    for (const char* more : {"", "--dry-run", "--explain"}) {
      std::vector<std::string> args = {"--config", source_file("configs/digits_cnn.yaml"),
                                       "--workdir", dir / "w"};
      args.insert(args.end(), flags.begin(), flags.end());
      if (*more) args.push_back(more);
      const Finished finished = run(args);
      INFO(flags[0] << " " << more);
      CHECK(finished.code == 2);
      CHECK(finished.err == line);
      CHECK(finished.out.empty());
    }
  }
  CHECK_FALSE(exists(dir / "w"));
}

}  // namespace bv::test
