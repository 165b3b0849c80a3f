// Normal ends of 1 to 8 ranks with the real binary: code 0, soon after the last line, and no
// process left. `scripts/dev.sh ends` times 200 of them.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "lib/util/text.h"
#include "test/support/binary.h"
#include "test/support/sockets.h"

namespace bv::test {
namespace {

constexpr int kMostRanks = 8;
// The longest time allowed from a run's last line to the end of its last process, as a multiple of
// the time from its start to its last line. Usually it is a tenth of that. A rank that did not
// detect another's end would wait for 20 s. On a busy machine, both times grow together.
constexpr double kMostRatio = 4;
constexpr double kSoon = 15;  // seconds that are never too many: the machine was busy

// Two steps with a checkpoint, an evaluation and a report, so that all threads of a run are in use.
const char* const kNormalEndConfig = R"(
num_classes: 10
total_steps: 2
precision: float32
input:
  data: {name: digits, split: "train[:840]"}
  batch_size: 840
  threads: 1
  pp: &pp value_range(-1, 1)|onehot(10, key="label", key_result="labels")|keep("image", "labels")
model_name: cnn
model: {widths: [4], dense: 8}
loss: softmax_xent
optax_name: scale_by_adam
lr: 0.01
log_training_steps: 1
evals:
  test: {type: classification, data: {name: digits, split: "test[:40]"}, pp_fn: *pp,
         loss_name: softmax_xent, batch_size: 840, log_steps: 2, skip_first: true}
)";

struct End {
  int code = -1;                              // exit code, or 128 + signal
  double started = 0, last_line = 0, at = 0;  // the times of its start, last output and end
  std::string text;                           // stdout and stderr
};

// Runs the binary with its output in a pipe, to know when each line comes.
class Watched {
 public:
  Watched(std::vector<std::string> args, const Environment& environment) {
    const char* binary = std::getenv("BVTRAIN");
    REQUIRE(binary);
    args.insert(args.begin(), binary);
    std::vector<char*> pointers;
    for (std::string& arg : args) pointers.push_back(arg.data());
    pointers.push_back(nullptr);
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(ends[1], 1);
      ::dup2(ends[1], 2);
      for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
      ::execv(pointers[0], pointers.data());
      ::_exit(127);
    }
    ::close(ends[1]);
    output_ = ends[0];
    end.started = now();
  }
  Watched(Watched&& other) noexcept
      : end(std::move(other.end)), pid_(other.pid_), output_(other.output_) {
    other.pid_ = other.output_ = -1;
  }
  ~Watched() {
    if (pid_ > 0) ::kill(pid_, SIGKILL), ::waitpid(pid_, nullptr, 0);
    if (output_ >= 0) ::close(output_);
  }

  bool ended() const { return pid_ < 0; }
  // Reads what was written since the last call, and notes whether the process has ended.
  void look() {
    read_all();
    int status = 0;
    if (ended() || ::waitpid(pid_, &status, WNOHANG) != pid_) return;
    read_all();
    pid_ = -1;
    end.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    end.at = now();
  }

  End end;

 private:
  void read_all() {
    char bytes[4096];
    pollfd ready{output_, POLLIN, 0};
    while (::poll(&ready, 1, 0) == 1) {
      const auto n = ::read(output_, bytes, sizeof(bytes));
      if (n <= 0) return;
      end.text.append(bytes, static_cast<size_t>(n));
      end.last_line = now();
    }
  }

  int pid_ = -1, output_ = -1;
};

// Runs `ranks` ranks, with bvtrain's launcher or started from here like torchrun. Returns the last
// start, the last line and the last end of the processes started here.
End end_of_run(int ranks, bool launched, const std::string& config, const std::string& workdir) {
  std::vector<std::string> args = {"--config", config, "--workdir", workdir};
  std::vector<Watched> processes;
  if (launched) {
    args.insert(args.end(), {"--devices", "cpu:" + std::to_string(ranks)});
    processes.emplace_back(args, Environment{});
  } else {
    const std::string size = std::to_string(ranks), port = std::to_string(free_port());
    for (int r = 0; r < ranks; ++r)
      processes.emplace_back(args, Environment{{"RANK", std::to_string(r)},
                                               {"WORLD_SIZE", size},
                                               {"LOCAL_RANK", std::to_string(r)},
                                               {"LOCAL_WORLD_SIZE", size},
                                               {"MASTER_ADDR", "127.0.0.1"},
                                               {"MASTER_PORT", port},
                                               {"OMP_NUM_THREADS", "1"}});
  }
  const auto ended = [](const Watched& process) { return process.ended(); };
  for (const double limit = now() + 120;
       !std::all_of(processes.begin(), processes.end(), ended) && now() < limit;) {
    for (Watched& process : processes) process.look();
    ::usleep(1000);
  }
  End all;
  all.code = 0;
  for (const Watched& process : processes) {
    const End& end = process.end;
    all.text += end.text;
    if (end.code != 0) all.code = end.code;
    all.started = std::max(all.started, end.started);
    all.last_line = std::max(all.last_line, end.last_line);
    all.at = std::max(all.at, end.at);
  }
  return all;
}

// Checks `times` ends of each size from 1 to 8, every second one without our launcher. Prints the
// times.
void check_ends(int times) {
  TempFolder dir;
  write(dir / "c.yaml", kNormalEndConfig);
  std::string table;
  double longest = 0;
  for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
    std::vector<double> seconds;
    for (int i = 0; i < times; ++i) {
      const std::string workdir = dir / fmt::format("{}-{}", ranks, i);
      const End end = end_of_run(ranks, i % 2 == 0, dir / "c.yaml", workdir);
      INFO(ranks << " ranks, run " << i << ":\n" << end.text);
      CHECK(end.code == 0);
      const double after = end.at - end.last_line;
      CHECK(after >= 0);
      CHECK(after < std::max(kSoon, kMostRatio * (end.last_line - end.started)));
      // No rank reported another, and the run did what it should have.
      CHECK(end.text.find("[distributed] ") == std::string::npos);
      CHECK(end.text.find("Logs/checkpoints are in") != std::string::npos);
      CHECK(exists(workdir + "/DONE"));
      CHECK(metric_rows(workdir).size() == 3);
      CHECK(processes_with(workdir).empty());
      seconds.push_back(after);
    }
    std::sort(seconds.begin(), seconds.end());
    longest = std::max(longest, seconds.back());
    table += fmt::format("{} ranks: {} ends, {:.3f} s to {:.3f} s, median {:.3f} s\n", ranks, times,
                         seconds.front(), seconds.back(), seconds[seconds.size() / 2]);
  }
  std::printf("%slongest: %.3f s from the last line to the end\n", table.c_str(), longest);
}

}  // namespace

TEST_CASE("normal ends of 1 to 8 ranks: code 0 soon after the last line") { check_ends(2); }

TEST_CASE("200 normal ends of 1 to 8 ranks", "[.][ends]") { check_ends(200 / kMostRanks); }

// All ranks come to their end without a step.
TEST_CASE("a run that has already finished ends at once on all ranks") {
  TempFolder dir;
  write(dir / "c.yaml", kNormalEndConfig);
  for (int i = 0; i < 2; ++i) {
    const End end = end_of_run(4, true, dir / "c.yaml", dir / "w");
    INFO(end.text);
    CHECK(end.code == 0);
    CHECK(end.at - end.last_line < std::max(kSoon, kMostRatio * (end.last_line - end.started)));
    CHECK((end.text.find("finished already, at step 2") != std::string::npos) == (i == 1));
  }
}

}  // namespace bv::test
