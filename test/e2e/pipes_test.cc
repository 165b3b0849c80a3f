// Pipes instead of files, with the real binary: nothing hangs, and a config may come from a pipe.
#include <fcntl.h>
#include <sys/stat.h>

#include <csignal>
#include <thread>

#include "lib/util/descriptor.h"
#include "test/e2e/bad_input.h"

namespace bv::test {
namespace {

std::string pipe_in(const TempFolder& dir, const std::string& name) {
  REQUIRE(::mkfifo((dir / name).c_str(), 0666) == 0);
  return dir / name;
}

// Runs bvtrain, which must read the pipe, while another thread writes the digits config into it.
Finished run_with_writer(const std::string& pipe, const std::vector<std::string>& args) {
  const std::string config = read_file(source_file("configs/digits_cnn.yaml"));
  std::thread writer([&] {
    const Descriptor to(pipe, O_WRONLY);  // waits for the reader
    write_all(to.get(), config);
  });
  const Finished finished = run(args);
  writer.join();
  return finished;
}

}  // namespace

TEST_CASE("a pipe in the place of a file is refused in one line") {
  Bad bad;
  pipe_in(bad.dir, "p");
  const std::string is = "p: error: is a pipe, not a file\n";
  CHECK(bad.line("include: p\n") ==
        "c.yaml:1:10: error: include: '" + bad.here(bad.dir / "p") + "': is a pipe, not a file\n");
  CHECK(bad.line(digits_with(kData, kData), {"--set", "model_init=" + (bad.dir / "p")}) == is);
  CHECK(bad.line(digits_with(kData, "data: {name: npz, fname: " + (bad.dir / "p") + "}")) == is);
  CHECK(bad.line(digits_with(kData, "data: {name: idx, images: " + (bad.dir / "p") +
                                        ", labels: " + (bad.dir / "p") + "}")) == is);
}

TEST_CASE("a workdir with pipes in the place of its files does not hang") {
  const TempFolder dir;
  const auto run_with_pipe = [&](const std::string& name) {
    const std::string workdir = dir / ("w-" + name);
    make_folders(workdir);
    REQUIRE(::mkfifo((workdir + "/" + name).c_str(), 0666) == 0);
    return run({"--config", source_file("configs/digits_cnn.yaml"), "--workdir", workdir, "--set",
                "total_steps=2"});
  };
  // Rows are appended to metrics.jsonl, which must be a file.
  const Finished rows = run_with_pipe("metrics.jsonl");
  INFO(rows.err);
  CHECK(rows.code == 2);
  CHECK(rows.err.find((dir / "w-metrics.jsonl/metrics.jsonl") + ": error: ") != std::string::npos);
  CHECK(rows.err.find("is a pipe, not a file") != std::string::npos);
  CHECK(rows.seconds < kWatchdog);
  // run.json of a run without a checkpoint is not read, and a new one replaces it.
  CHECK(run_with_pipe("run.json").code == 0);
  CHECK(std::filesystem::is_regular_file(dir / "w-run.json/run.json"));
}

TEST_CASE("a config may come from a pipe, which one process can read") {
  const TempFolder dir;
  const std::string pipe = pipe_in(dir, "p");
  const Finished checked = run_with_writer(pipe, {"--config", pipe, "--dry-run"});
  INFO(checked.err);
  CHECK(checked.code == 0);
  const Finished ranks =
      run_with_writer(pipe, {"--config", pipe, "--workdir", dir / "w", "--devices", "cpu:2"});
  CHECK(ranks.code == 2);
  CHECK(ranks.err == "--config " + pipe +
                         ": error: is a pipe, which only one process can read; write the config to "
                         "a file\n");
  CHECK(!exists(dir / "w"));
}

TEST_CASE("a signal ends the wait for a pipe's writer") {
  const TempFolder dir;
  const std::string pipe = pipe_in(dir, "p");
  Child child({"--config", pipe, "--dry-run"});
  std::this_thread::sleep_for(std::chrono::milliseconds(500));  // it waits by now
  child.kill(SIGTERM);
  CHECK(child.wait(kWatchdog).code == 143);
}

}  // namespace bv::test
