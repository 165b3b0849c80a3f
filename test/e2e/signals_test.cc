// Signals to commands that have nothing to save and to starting runs, closed standard descriptors,
// and a reader that exits. With the real binary.
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <signal.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <thread>

#include "lib/ckpt/formats/npz.h"
#include "lib/util/file.h"
#include "test/support/binary.h"
#include "test/support/limits.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

constexpr std::pair<int, int> kCodes[] = {
    {SIGTERM, 143}, {SIGHUP, 143}, {SIGINT, 130}, {SIGUSR1, 75}};

struct SignalledRuns {
  TempFolder dir;
  std::string config = source_file("configs/digits_cnn.yaml");
  std::vector<std::string> args(const std::string& workdir,
                                const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"--config",    config,  "--workdir",
                                    dir / workdir, "--set", "evals=null"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  void train() const {
    const Finished finished =
        run({"--config", config, "--workdir", dir / "w", "--set", "total_steps=2"});
    INFO(finished.err);
    REQUIRE(finished.code == 0);
  }
};

// Runs a command line of the shell, in which $BVTRAIN is the binary.
Finished shell(const std::string& line) {
  return Process("/bin/sh", {"sh", "-c", line}, {}).wait(kWatchdog);
}

}  // namespace

TEST_CASE("bench ends at a signal, with the documented code") {
  const SignalledRuns f;
  for (const auto& [signal, code] : kCodes) {
    Child child({"bench", "--config", f.config, "--seconds", "1000"});
    child.first_line();  // it measures
    child.kill(signal);
    const Finished finished = child.wait(kWatchdog);
    CHECK(finished.code == code);
    CHECK(finished.err.find("error") == std::string::npos);
  }
}

TEST_CASE("predict ends at a signal and leaves no half-written file") {
  const SignalledRuns f;
  f.train();
  write_npz(f.dir / "many.npz", {{"image", at::zeros({1'000'000, 8, 8, 1}, at::kByte)}});
  for (const auto& [signal, code] : kCodes) {
    const std::string folder = f.dir / ("out" + std::to_string(signal));
    std::filesystem::create_directory(folder);
    Child child({"predict", "--workdir", f.dir / "w", "--input", f.dir / "many.npz", "--batch-size",
                 "1", "--output", folder + "/o.jsonl"});
    REQUIRE(wait_until([&] { return !std::filesystem::is_empty(folder); }));  // it writes
    child.kill(signal);
    CHECK(child.wait(kWatchdog).code == code);
    CHECK(std::filesystem::is_empty(folder));
  }
}

// The libraries of a rank take a while to load. Before that is done it has no handlers.
TEST_CASE("a signal while the ranks start ends the run with the documented code") {
  const SignalledRuns f;
  for (const auto& [signal, code] : kCodes) {
    const std::string name = "w" + std::to_string(signal);
    Child child(f.args(name, {"--devices", "cpu:2", "--set", "total_steps=1000000"}));
    REQUIRE(wait_until([&] { return children_of(child.pid()).size() == 2; }));
    child.kill(signal);
    const Finished finished = child.wait(kWatchdog);
    INFO(finished.err);
    CHECK(finished.code == code);
    CHECK(finished.err.find("[distributed]") == std::string::npos);
  }
}

// A library whose constructor runs among those of LibTorch sends the signal.
TEST_CASE("a signal before main() ends the program with the documented code") {
  if (kSanitized) return;  // the sanitizer's library has to be loaded first
  const SignalledRuns f;
  write_file_atomically(f.dir / "early.c",
                        "#include <signal.h>\n#include <stdlib.h>\n"
                        "__attribute__((constructor)) static void early(void) {\n"
                        "  raise(atoi(getenv(\"EARLY_SIGNAL\")));\n}\n");
  REQUIRE(shell(fmt::format("gcc -shared -fPIC -o {0}/early.so {0}/early.c", f.dir.path())).code ==
          0);
  for (const auto& [signal, code] : kCodes) {
    const Environment early = {{"LD_PRELOAD", f.dir / "early.so"},
                               {"EARLY_SIGNAL", fmt::format("{}", signal)}};
    const Finished finished = run(f.args(fmt::format("early{}", signal)), early);
    INFO(finished.err);
    CHECK(finished.code == code);
    CHECK(run({"help", "best"}, early).code == code);
  }
}

TEST_CASE("a SIGINT to every process of a run counts once, although the launcher passes it on") {
  const SignalledRuns f;
  Child child(f.args("w", {"--devices", "cpu:2", "--set", "total_steps=1000000", "--set",
                           "ckpt_epochs=null", "--set", "ckpt_steps=5"}));
  REQUIRE(wait_for_file(f.dir / "w/ckpt/LAST"));
  const std::set<int> ranks = children_of(child.pid());
  child.kill(SIGINT);
  for (const int rank : ranks) ::kill(rank, SIGINT);
  const Finished finished = child.wait(kWatchdog);
  INFO(finished.err);
  CHECK(finished.code == 130);
  CHECK(finished.err.find("the checkpoint is committed") != std::string::npos);
}

TEST_CASE("with closed standard descriptors a run writes no log into its other files") {
  const SignalledRuns f;
  for (const char* devices : {"cpu", "cpu:2"}) {
    for (const char* closed : {"2>&-", "<&-", "<&- >&- 2>&-"}) {
      const std::string workdir = f.dir / (std::string(devices) + closed);
      const Finished finished = shell(fmt::format(
          "exec \"$BVTRAIN\" --config {} --set total_steps=2 --workdir '{}' --devices {} {}",
          f.config, workdir, devices, closed));
      INFO(devices << " " << closed << "\n" << finished.err);
      CHECK(finished.code == 0);
      CHECK(exists(workdir + "/DONE"));
      CHECK(read_text(workdir + "/.lock").empty());  // released
    }
  }
  // Output that cannot be written is still an error.
  CHECK(shell("exec \"$BVTRAIN\" --list models >&-").code == 5);
}

TEST_CASE("a launcher ends with its ranks, even if its parent ignores SIGCHLD") {
  const SignalledRuns f;
  const Finished finished = shell(fmt::format(
      "exec env --ignore-signal=CHLD \"$BVTRAIN\" --config {} --set total_steps=2 --set evals=null "
      "--workdir {} --devices cpu:2",
      f.config, f.dir / "w"));
  INFO(finished.err);
  CHECK(finished.code == 0);
  CHECK(exists(f.dir / "w/DONE"));
}

TEST_CASE("a reader that closes the pipe is no failure") {
  const SignalledRuns f;
  f.train();
  for (const std::string& command :
       {"predict --eval test --batch-size 8 --output - --workdir " + (f.dir / "w"),
        std::string("help --man"), std::string("schema")}) {
    const Finished finished = shell("{ \"$BVTRAIN\" " + command + "; echo code $? >&2; } | true");
    INFO(finished.err);
    CHECK(finished.err.ends_with("code 141\n"));
    CHECK(finished.err.find("error") == std::string::npos);
  }
}

TEST_CASE("names with control characters neither reach the terminal nor look like lines") {
  const SignalledRuns f;
  const std::string name = "a\nerror: b\x1b[2J\u009b\u202e.yaml";
  const Finished config = run({"--config", name});
  CHECK(config.code == 2);
  CHECK(config.err ==
        R"(a\nerror: b\x1b[2J\u009b\u202e.yaml: error: no such file)" + std::string("\n"));
  const Finished flag = run({"--config", f.config, "--\x1b[2J\n"});
  CHECK(flag.code == 2);
  CHECK(count(flag.err, "\n") == 1);
  CHECK(flag.err.find('\x1b') == std::string::npos);
  const Finished explained =
      run({"--config", f.config, "--set", "input.data.split=\"test\u202e\"", "--explain"});
  CHECK((explained.out + explained.err).find("\u202e") == std::string::npos);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they need the address space
TEST_CASE("too little memory, and threads that cannot start, end a run with one line") {
  const SignalledRuns f;
  const auto limited = [&](const std::string& set) {
    return shell(
        fmt::format("ulimit -v 6000000; exec \"$BVTRAIN\" --config {} --set evals=null "
                    "--set total_steps=2 --set {}",
                    f.config, set));
  };
  const Finished memory = limited("model.dense=40000000");
  INFO(memory.err);
  CHECK(memory.code == 6);
  CHECK(memory.err.find("error: out of memory; raise grad_accum_steps") != std::string::npos);
  const std::string why =
      ": Resource temporarily unavailable; lower the number, or raise the limits on processes and "
      "memory (ulimit -u, ulimit -v)\n";
  const Finished compute = limited("compute_threads=4000");
  CHECK(compute.code == 2);
  CHECK(compute.err ==
        "--set compute_threads=4000: error: compute_threads: can't start 4000 threads" + why);
  const Finished loader = limited("input.threads=4000");
  CHECK(loader.code == 2);
  CHECK(loader.err.ends_with(
      "--set input.threads=4000: error: input.threads: can't start 4000 loader threads" + why));
}
#endif

TEST_CASE("with --debug-on-crash a process that crashes waits for gdb") {
  TempFolder dir;
  Child child({"--config", source_file("configs/digits_cnn.yaml"), "--workdir", dir / "w", "--set",
               "total_epochs=100000", "--debug-on-crash"});
  REQUIRE(wait_for_file(dir / "w/metrics.jsonl"));
  const int pid = child.pid();
  child.kill(SIGSEGV);
  const std::string line = fmt::format(
      "bvtrain: process {0} has crashed and waits for a debugger: gdb -p {0} shows where; ", pid);
  CHECK(wait_until([&] { return contains(child.errors(), line); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const char state = state_of(pid).first;
  CHECK(state != 0);
  CHECK(state != 'Z');
  child.kill(SIGKILL);
  CHECK(child.wait().code == 137);
}

}  // namespace bv::test
