// --max-time, the end of a slurm job, and --requeue, with the real binary.
#include <catch2/catch.hpp>
#include <ctime>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "test/support/binary.h"
#include "test/support/limits.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

// A run that takes longer than any test.
std::vector<std::string> long_run(const std::string& workdir,
                                  const std::vector<std::string>& flags = {}) {
  std::vector<std::string> args = {"--config",  source_file("configs/digits_cnn.yaml"),
                                   "--workdir", workdir,
                                   "--set",     "total_epochs=100000"};
  args.insert(args.end(), flags.begin(), flags.end());
  return args;
}

// Calls start(seconds), which runs bvtrain with a time limit. If the limit has passed before the
// first step, because the machine is busy, calls it again with twice the time.
Finished stopped_in_a_step(int seconds, const std::function<Finished(int)>& start) {
  Finished stopped = start(seconds);
  for (int attempt = 0; attempt < 3 && contains(stopped.err, "before the first step"); ++attempt)
    stopped = start(seconds *= 2);
  return stopped;
}

// A folder with a `scontrol` that writes its arguments into the file `called` there.
void make_scontrol(const std::string& folder) {
  write(folder + "/scontrol", "#!/bin/sh\necho \"$@\" >>" + folder + "/called\n");
  std::filesystem::permissions(folder + "/scontrol", std::filesystem::perms::owner_all);
}

}  // namespace

TEST_CASE("a run saves and stops when --max-time has passed") {
  for (const std::string devices : {"cpu", "cpu:2"}) {
    INFO(devices);
    TempFolder dir;
    // Two ranks take longer to start beside other tests.
    const Finished stopped = stopped_in_a_step(devices == "cpu" ? 3 : 6, [&](int seconds) {
      const std::string limit = fmt::format("{}s", seconds * kSlowness);
      return run(long_run(dir / "out", {"--max-time", limit, "--devices", devices}));
    });
    INFO(stopped.err);
    REQUIRE(stopped.code == 75);
    CHECK(contains(stopped.err, "The run saves and stops at 20"));
    CHECK(contains(stopped.err, "Stopped by the time limit at step "));
    const auto result = nlohmann::json::parse(read_text(dir / "out/result.json"));
    CHECK(result.at("exit_code") == 75);
    CHECK(contains(result.at("reason"), "stopped by the time limit; the checkpoint of step "));
    CHECK(exists(fmt::format("{}/out/ckpt/step-{}", dir.path(), result.at("step").get<int>())));
  }
}

// Jobs of 8 or 12 seconds: the run stops half-way.
TEST_CASE("a run stops before its slurm job ends, and --requeue continues it") {
  TempFolder dir;
  make_scontrol(dir / "bin");
  // The environment of a task of a job that ends in `seconds` seconds.
  const auto slurm = [&](const char* task, int64_t seconds) -> Environment {
    return {{"SLURM_JOB_ID", "7"},
            {"SLURM_PROCID", task},
            {"SLURM_JOB_END_TIME", std::to_string(std::time(nullptr) + seconds * kSlowness)},
            {"PATH", dir / "bin" + std::string(":") + std::getenv("PATH")}};
  };
  const std::string out = dir / "out";
  const auto requeue = [&](const char* task, int job_seconds) {
    return stopped_in_a_step(job_seconds, [&](int seconds) {
      return run(long_run(out, {"--requeue"}), slurm(task, seconds));
    });
  };
  const Finished stopped = stopped_in_a_step(12, [&](int seconds) {
    return run(long_run(out, {"--requeue", "--devices", "cpu:2"}), slurm("0", seconds));
  });
  INFO(stopped.err);
  CHECK(stopped.code == 75);
  CHECK(contains(stopped.err, "Requeueing slurm job 7"));
  CHECK(read_text(dir / "bin/called") == "requeue 7\n");

  // Rank 0 alone does so, and a run that has finished does not.
  CHECK(requeue("1", 8).code == 75);
  const Finished finished =
      run(long_run(dir / "other", {"--requeue", "--set", "total_epochs=1"}), slurm("0", 100000));
  INFO(finished.err);
  CHECK(finished.code == 0);
  CHECK(read_text(dir / "bin/called") == "requeue 7\n");

  // A damaged checkpoint of a higher step than the run reaches: steps are saved nevertheless.
  const std::string damaged = out + "/ckpt/step-90000000";
  std::filesystem::copy(
      fmt::format("{}/ckpt/step-{}", out,
                  nlohmann::json::parse(read_text(out + "/result.json")).at("step").get<int64_t>()),
      damaged, std::filesystem::copy_options::recursive);
  std::filesystem::resize_file(damaged + "/state-00000-of-00001.safetensors", 1000);
  CHECK(requeue("0", 8).code == 75);
  CHECK(exists(damaged));
  CHECK(read_text(dir / "bin/called") == "requeue 7\nrequeue 7\n");

  write(dir / "bin/scontrol", "#!/bin/sh\nexit 1\n");
  const Finished failed = requeue("0", 8);
  CHECK(failed.code == 75);
  CHECK(contains(failed.err, "`scontrol requeue 7` failed: submit the job again to continue"));
}

TEST_CASE("a job that has saved nothing is not put back into the queue") {
  TempFolder dir;
  make_scontrol(dir / "bin");
  const Environment slurm = {
      {"SLURM_JOB_ID", "7"},
      {"SLURM_JOB_END_TIME", std::to_string(std::time(nullptr) - 1)},  // of an older job
      {"BVTRAIN_SLEEP_AT", "eval.rank0:1:2"},
      {"PATH", dir / "bin" + std::string(":") + std::getenv("PATH")}};
  const Finished stopped = run(long_run(dir / "out", {"--requeue", "--max-time", "1s"}), slurm);
  INFO(stopped.err);
  CHECK(stopped.code == 75);
  CHECK(contains(stopped.err, "SLURM_JOB_END_TIME is in the past ("));
  CHECK(contains(stopped.err, "slurm job 7 is not requeued: it saved no step"));

  Environment slow_start = slurm;  // its time is over before it reads the data
  slow_start[2] = {"BVTRAIN_SLEEP_AT", "start.data:1:2"};
  write(dir / "list.csv", "image,label\na.png,0\n");
  const std::string data = "input.data={name: csv, fname: " + (dir / "list.csv") + "}";
  const Finished early =
      run(long_run(dir / "early", {"--requeue", "--max-time", "1s", "--set", data}), slow_start);
  INFO(early.err);
  CHECK(early.code == 75);
  CHECK(
      contains(early.err, "Stopped by the time limit before the first step; nothing was saved\n"));
  CHECK(contains(early.err, "slurm job 7 is not requeued: it saved no step"));
  CHECK(!exists(dir / "bin/called"));
}

TEST_CASE("a wrong time limit is refused") {
  TempFolder dir;
  for (const std::string text : {"5", "0s", "1m2h", "h", "-5s", "3x", "99999999999d"}) {
    const Finished refused = run(long_run(dir / "out", {"--max-time=" + text}));
    CHECK(refused.code == 2);
    CHECK(contains(refused.err, "--max-time " + text +
                                    ": error: expected a time such as 90s, 30m, 47h50m or 2d\n"));
  }
  CHECK(run(long_run(dir / "out", {"--max-time", "x", "--dry-run"})).code == 2);
  const Finished outside = run(long_run(dir / "out", {"--requeue"}));
  CHECK(outside.code == 2);
  CHECK(contains(outside.err, "--requeue: error: this is not a slurm job"));
  CHECK(!exists(dir / "out"));
}

}  // namespace bv::test
