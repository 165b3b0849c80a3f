// Checkpoints of processes that die, at every named point and at random moments.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <random>

#include "lib/ckpt/checkpointer.h"
#include "test/ckpt/support.h"
#include "test/support/limits.h"

namespace bv::test {

namespace {

Snapshot mixed_precision_state(int64_t step) {
  Snapshot snapshot;
  snapshot.step = step;
  snapshot.tensors["params/a"] = at::full({3000}, static_cast<double>(step), at::kFloat);
  snapshot.tensors["opt/mu/a"] = at::full({3000}, -static_cast<double>(step), at::kBFloat16);
  snapshot.meta = {{"step_too", step}};
  return snapshot;
}

// Returns the step of the newest intact checkpoint, 0 if there is none. Checks that all of it
// belongs to that step.
int64_t recovered(const Workdir& workdir) {
  const auto restored = Checkpointer::latest(workdir);
  if (!restored) return 0;
  const auto expected = mixed_precision_state(restored->step);
  for (const auto& [name, tensor] : expected.tensors) {
    CHECK(restored->tensors.at(name).equal(tensor));
  }
  CHECK(restored->meta == expected.meta);
  return restored->step;
}

}  // namespace

TEST_CASE("crash: at every point of a save this checkpoint or the one before it survives") {
  const MemoryFolder folder;
  struct Point {
    const char* name;
    bool committed;  // whether the interrupted save is committed
    int first;       // the first save that reaches the point
  };
  for (const Point& point :
       {Point{"shard_written", false, 1}, Point{"manifest_written", false, 1},
        Point{"renamed", true, 1}, Point{"last_replaced", true, 1}, Point{"pruned", true, 3}}) {
    for (int n = 1; n <= 4; ++n) {
      INFO(point.name << ":" << n);
      const Workdir workdir(folder / fmt::format("{}-{}", point.name, n));
      const std::string variable = fmt::format("ckpt.{}:{}", point.name, n);
      const int status = run_in_child([&] {
        ::setenv("BVTRAIN_CRASH_AT", variable.c_str(), 1);
        Checkpointer checkpointer(workdir);
        for (int64_t step = 1; step <= 10; ++step) {
          checkpointer.save(mixed_precision_state(step), false);
          checkpointer.wait();
        }
      });
      REQUIRE(WIFSIGNALED(status));
      CHECK(WTERMSIG(status) == SIGKILL);
      const int64_t interrupted = point.first + n - 1;
      CHECK(recovered(workdir) == interrupted - (point.committed ? 0 : 1));

      // The next run continues, and nothing of the dead one is left.
      Checkpointer checkpointer(workdir);
      checkpointer.save(mixed_precision_state(100), false);
      checkpointer.wait();
      checkpointer.save(mixed_precision_state(101), false);
      checkpointer.wait();
      CHECK(recovered(workdir) == 101);
      CHECK(std::distance(std::filesystem::directory_iterator(workdir.ckpt().path()),
                          std::filesystem::directory_iterator()) == 3);
    }
  }
}

TEST_CASE("crash: a checkpoint that is saved again survives where folders cannot be exchanged") {
  const MemoryFolder folder;
  const int status = run_in_child([&] {
    ::setenv("BVTRAIN_WITHOUT", "exchange", 1);
    ::setenv("BVTRAIN_CRASH_AT", "ckpt.moved_away:1", 1);
    const Workdir workdir(folder.path());
    Checkpointer checkpointer(workdir, {}, /*newest_kept=*/1);
    for (const bool keep : {false, true}) {
      checkpointer.save(mixed_precision_state(7), keep);
      checkpointer.wait();
    }
  });
  REQUIRE(WIFSIGNALED(status));
  Workdir workdir(folder.path());
  CHECK(recovered(workdir) == 0);
  workdir.claim();
  CHECK(recovered(workdir) == 7);
}

TEST_CASE("crash: kill -9 at any time loses at most the save in progress") {
  if (kThreadSanitized) return;
  const MemoryFolder folder;
  const Workdir workdir(folder.path());
  std::mt19937 random(20261121);
  int64_t newest = 0;
  for (int kill = 0; kill < 40; ++kill) {
    int reports[2];
    REQUIRE(::pipe(reports) == 0);
    const pid_t pid = ::fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
      try {
        Checkpointer checkpointer(workdir);
        for (int64_t step = newest + 1;; ++step) {
          checkpointer.save(mixed_precision_state(step), step % 50 == 0);
          checkpointer.wait();
          if (::write(reports[1], &step, sizeof(step)) != sizeof(step)) ::_exit(98);
        }
      } catch (...) {
      }
      ::_exit(99);
    }
    ::close(reports[1]);
    ::usleep(random() % 25000);
    ::kill(pid, SIGKILL);
    int status = 0;
    REQUIRE(::waitpid(pid, &status, 0) == pid);
    CHECK(WIFSIGNALED(status));
    int64_t promised = newest;
    for (int64_t step = 0; ::read(reports[0], &step, sizeof(step)) == sizeof(step);)
      promised = step;
    ::close(reports[0]);
    newest = recovered(workdir);
    CHECK(newest >= promised);
    CHECK(newest <= promised + 1);
  }
  CHECK(newest > 0);
}

}  // namespace bv::test
