// Saves that overlap, are retried, or fail.
#include <ATen/ATen.h>
#include <sys/mount.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "lib/ckpt/checkpoint_writer.h"
#include "lib/ckpt/checkpointer.h"
#include "lib/report/metric_writer.h"
#include "lib/util/file.h"
#include "lib/util/text.h"
#include "test/ckpt/support.h"
#include "test/support/clock.h"
#include "test/support/limits.h"
#include "test/support/variable.h"

namespace bv::test {

namespace {

namespace fs = std::filesystem;

Snapshot kernel_state(int64_t step, int64_t floats = 100) {
  Snapshot snapshot;
  snapshot.step = step;
  snapshot.tensors["params/kernel"] = at::full({floats}, static_cast<double>(step), at::kFloat);
  snapshot.meta = {{"config", "lr: 0.1"}};
  return snapshot;
}

// Saves of this step fail until the returned file is deleted. Call it after Checkpointer::start(),
// which deletes leftovers.
std::string block(const Workdir& workdir, int64_t step, const std::string& id = "") {
  const std::string file = workdir.ckpt().unfinished(step, id);
  std::ofstream(file) << "not a folder";
  return file;
}

std::vector<int64_t> steps(const Workdir& workdir) { return workdir.ckpt().steps(); }

}  // namespace

TEST_CASE("saves: one may wait for another, and they are committed in order") {
  const TempFolder folder;
  const Workdir workdir(folder.path());
  Checkpointer checkpointer(workdir);
  std::atomic<bool> go = false;
  Snapshot held = kernel_state(1);
  held.before_commit = [&] { CHECK(wait_until([&] { return go.load(); })); };
  const int first = checkpointer.free_buffer();
  checkpointer.save(std::move(held), false);
  CHECK(checkpointer.free_buffer() == 1 - first);  // does not wait
  checkpointer.save(kernel_state(2), true);
  const std::string written = workdir.ckpt().unfinished(1, "") + "/manifest.json";
  CHECK(wait_until([&] { return file_exists(written); }));
  CHECK(steps(workdir).empty());
  go = true;
  CHECK(checkpointer.free_buffer() == first);  // waits for the first save
  CHECK(steps(workdir).front() == 1);
  checkpointer.wait();
  CHECK(steps(workdir) == std::vector<int64_t>{1, 2});
  CHECK(read_file(workdir.ckpt().last()) == "step-2\n");
  const int free = checkpointer.free_buffer();
  checkpointer.save(kernel_state(3), false);
  checkpointer.wait();
  CHECK(checkpointer.free_buffer() == free);  // saves that do not overlap use the same memory
}

TEST_CASE("saves: the newest takes the place of one that waits") {
  const TempFolder folder;
  const Workdir workdir(folder.path());
  std::atomic<bool> go = false;
  const auto hold = [&](Checkpointer& checkpointer, int64_t step) {
    go = false;
    Snapshot held = kernel_state(step);
    held.before_commit = [&] { CHECK(wait_until([&] { return go.load(); })); };
    checkpointer.save(std::move(held), false);
    CHECK(wait_until(
        [&] { return file_exists(workdir.ckpt().unfinished(step, "") + "/manifest.json"); }));
  };
  Checkpointer checkpointer(workdir, {}, /*newest_kept=*/9);
  hold(checkpointer, 1);
  const int other = checkpointer.free_buffer();
  for (const int64_t step : {2, 3, 4}) {
    CHECK(checkpointer.free_buffer() == other);
    checkpointer.save(kernel_state(step), false);
  }
  checkpointer.mark_best("", {"val/loss", false, 4, 0.5});
  std::future<void> next = std::async(std::launch::async, [&] {
    checkpointer.save(kernel_state(5), false);  // waits: the best one is not left out
  });
  CHECK(next.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout);
  go = true;
  next.wait();
  checkpointer.wait();
  CHECK(steps(workdir) == std::vector<int64_t>{1, 4, 5});
  CHECK(Checkpointer::load(workdir.ckpt().best("")).step == 4);
  hold(checkpointer, 6);
  checkpointer.save(kernel_state(7), true);
  go = true;
  checkpointer.save(kernel_state(8), false);  // waits: 7 is to be kept
  checkpointer.wait();
  CHECK(steps(workdir) == std::vector<int64_t>{1, 4, 5, 6, 7, 8});
}

TEST_CASE("saves: training that saves all the time leaves most of them out") {
  const MemoryFolder folder;
  const Workdir workdir(folder.path());
  std::atomic<int64_t> saved = 0;
  int64_t step = 0, left_out = 0, taken = 0;
  {
    Checkpointer checkpointer(workdir);
    const Snapshot state = kernel_state(0, 1 << 20);
    for (const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
         std::chrono::steady_clock::now() < end;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (checkpointer.leave_out(++step)) continue;
      Snapshot next = state;
      next.step = step;
      next.before_commit = [&] { ++saved; };
      checkpointer.save(std::move(next), false);
      ++taken;
    }
    checkpointer.save(kernel_state(++step), true);
    checkpointer.wait();
    left_out = checkpointer.left_out_saves();
  }
  CHECK(steps(workdir).back() == step);
  CHECK(saved > 1);
  CHECK(taken < step / 2);
  CHECK(left_out == step - 1 - saved);
}

TEST_CASE("saves: a write that fails is tried again") {
  const TempFolder folder;
  const Workdir workdir(folder.path());
  const Variable wait("BVTRAIN_RETRY_AFTER", "0.3");
  Checkpointer checkpointer(workdir);
  checkpointer.start();
  const std::string blocked = block(workdir, 1);
  checkpointer.save(kernel_state(1), false);
  CHECK(!wait_until([&] { return !steps(workdir).empty(); }, 0.1));
  fs::remove(blocked);
  checkpointer.wait();
  CHECK(steps(workdir) == std::vector<int64_t>{1});
  CHECK(checkpointer.failed_saves() == 0);
}

TEST_CASE("saves: one may fail, but not two in a row and not the last one") {
  const TempFolder folder;
  const Workdir workdir(folder.path());
  const Variable wait("BVTRAIN_RETRY_AFTER", "0");
  Checkpointer checkpointer(workdir);
  checkpointer.start();
  const auto fault = [&](int64_t step) {
    return workdir.ckpt().unfinished(step, "") + ": error: cannot make the folder: Not a directory";
  };
  block(workdir, 2);
  block(workdir, 4);
  block(workdir, 5);
  block(workdir, 7);
  for (const int64_t step : {1, 2, 3, 4}) {
    checkpointer.save(kernel_state(step), step == 2);
    checkpointer.drain();
  }
  checkpointer.mark_best("", {"val/loss", false, 4, 0.5});  // is not there, which ends nothing
  checkpointer.save(kernel_state(5), false);
  CHECK(error_of([&] { checkpointer.wait(); }, Exit::storage) == fault(5));
  CHECK(steps(workdir) == std::vector<int64_t>{1, 3});
  CHECK(workdir.ckpt().all_best().empty());
  CHECK(checkpointer.failed_saves() == 3);
  checkpointer.save(kernel_state(6), false);
  checkpointer.wait();
  checkpointer.save(kernel_state(7), false);
  checkpointer.drain();  // one failure ends nothing yet
  CHECK(error_of([&] { checkpointer.wait(); }, Exit::storage) == fault(7));
  checkpointer.wait();  // it is told once
  CHECK(steps(workdir) == std::vector<int64_t>{3, 6});
}

TEST_CASE("saves: a workdir that is gone is not made again, and one that is back is used") {
  const TempFolder folder;
  const std::string dir = folder / "w", moved = folder / "moved";
  const Variable wait("BVTRAIN_RETRY_AFTER", "0");
  Workdir workdir(dir);
  workdir.claim();
  Checkpointer checkpointer(workdir, {}, /*newest_kept=*/9);
  const auto save = [&](int64_t step) {
    checkpointer.save(kernel_state(step), false);
    checkpointer.drain();
  };
  const auto is_gone = [&](const std::string& line) {
    return line.starts_with(dir + ": error: the workdir is gone: ");
  };
  save(1);
  fs::rename(dir, moved);
  save(2);
  CHECK_FALSE(file_exists(dir));
  fs::rename(moved, dir);
  save(3);
  fs::rename(dir, moved);
  fs::create_directory(dir);  // as an unmounted file system leaves
  save(4);
  CHECK(is_gone(error_of([&] { save(5); }, Exit::storage)));
  CHECK(fs::is_empty(dir));
  checkpointer.mark_best("", {"val/loss", false, 3, 0.5});
  CHECK(is_gone(error_of([&] { checkpointer.wait(); }, Exit::storage)));
  CHECK(fs::is_empty(dir));
  CHECK(is_gone(error_of([&] { Checkpointer(workdir).start(); }, Exit::storage)));
  CHECK(fs::is_empty(dir));
  fs::remove(dir);
  fs::rename(moved, dir);
  CHECK(steps(workdir) == std::vector<int64_t>{1, 3});
}

TEST_CASE("saves: without its rows a checkpoint is not committed") {
  const TempFolder folder;
  const Workdir workdir(folder.path());
  Checkpointer checkpointer(workdir);
  const auto save = [&](int64_t step, bool rows) {
    Snapshot snapshot = kernel_state(step);
    snapshot.before_commit = [rows] {
      if (rows) return;
      throw Error(Exit::storage, "metrics.jsonl", "cannot write: No space left on device");
    };
    checkpointer.save(std::move(snapshot), false);
    checkpointer.drain();
  };
  save(1, false);
  save(2, true);
  CHECK(steps(workdir) == std::vector<int64_t>{2});
  CHECK(checkpointer.failed_saves() == 1);
  save(3, false);
  CHECK(error_of([&] { save(4, false); }, Exit::storage) ==
        "metrics.jsonl: error: cannot write: No space left on device");
  CHECK(steps(workdir) == std::vector<int64_t>{2});
}

TEST_CASE("saves: rows that cannot be synced end the run at once") {
  const TempFolder folder;
  const Workdir workdir(folder.path());
  Checkpointer checkpointer(workdir);
  Snapshot snapshot = kernel_state(1);
  snapshot.before_commit = [] {
    throw UnsyncedRows(Error(Exit::storage, "metrics.jsonl", "cannot sync: Input/output error"));
  };
  checkpointer.save(std::move(snapshot), false);
  CHECK(error_of([&] { checkpointer.drain(); }, Exit::storage) ==
        "metrics.jsonl: error: cannot sync: Input/output error");
  CHECK(steps(workdir).empty());
}

TEST_CASE("saves: a best checkpoint that fails once is written with the next one") {
  const TempFolder folder;
  const Workdir workdir(folder.path());
  const Variable wait("BVTRAIN_RETRY_AFTER", "0");
  Checkpointer checkpointer(workdir, {}, /*newest_kept=*/1);
  checkpointer.start();
  const std::string best = workdir.ckpt().best("");
  const auto save = [&](int64_t step) {
    checkpointer.save(kernel_state(step), false);
    checkpointer.drain();
  };
  const auto mark_in_vain = [&](int64_t step) {
    const Limit limit(RLIMIT_FSIZE, 10);
    checkpointer.mark_best("", {"val/loss", false, step, 0.5});
    checkpointer.drain();
  };
  std::signal(SIGXFSZ, SIG_IGN);
  save(1);
  mark_in_vain(1);
  CHECK(!file_exists(best));
  save(2);
  CHECK(read_best(best)->step == 1);
  CHECK(steps(workdir) == std::vector<int64_t>{1, 2});  // 1 was needed until now
  save(3);
  CHECK(steps(workdir) == std::vector<int64_t>{3});
  const std::string fault = best + ".tmp/manifest.json: error: cannot write: File too large";
  mark_in_vain(3);
  CHECK(error_of([&] { checkpointer.wait(); }, Exit::storage) == fault);
  mark_in_vain(3);  // is tried only with the next save
  const Limit limit(RLIMIT_FSIZE, 10);
  CHECK(error_of([&] { save(4); }, Exit::storage) == fault);
  CHECK(read_best(best)->step == 1);
}

TEST_CASE("saves: two series of best checkpoints that fail at one step end nothing") {
  const TempFolder folder;
  const Workdir workdir(folder.path());
  const Variable wait("BVTRAIN_RETRY_AFTER", "0");
  std::signal(SIGXFSZ, SIG_IGN);
  Checkpointer checkpointer(workdir);
  checkpointer.save(kernel_state(1), false);
  checkpointer.wait();
  {
    const Limit limit(RLIMIT_FSIZE, 10);
    checkpointer.mark_best("", {"val/loss", false, 1, 0.5});
    checkpointer.mark_best("top", {"val/prec@1", true, 1, 0.5});
    checkpointer.drain();
  }
  CHECK(workdir.ckpt().all_best().empty());
  checkpointer.save(kernel_state(2), false);
  checkpointer.wait();
  CHECK(read_best(workdir.ckpt().best(""))->step == 1);
  CHECK(read_best(workdir.ckpt().best("top"))->step == 1);
}

TEST_CASE("saves: LAST is only a hint") {
  const TempFolder folder;
  const Workdir workdir(folder.path());
  const Variable wait("BVTRAIN_RETRY_AFTER", "0");
  Checkpointer checkpointer(workdir, {}, /*newest_kept=*/1);
  checkpointer.start();
  fs::create_directory(workdir.ckpt().last());  // cannot be replaced by a file
  checkpointer.save(kernel_state(1), false);
  checkpointer.wait();
  checkpointer.save(kernel_state(2), false);
  checkpointer.wait();
  CHECK(steps(workdir) == std::vector<int64_t>{2});
}

TEST_CASE("saves: another error than that of a disk ends the run at once") {
  const TempFolder folder;
  const Workdir workdir(folder.path());
  Checkpointer checkpointer(workdir);
  Snapshot snapshot = kernel_state(1);
  snapshot.before_commit = [] { throw Error(Exit::internal, "rows", "out of order"); };
  checkpointer.save(std::move(snapshot), false);
  CHECK(error_of(
            [&] {
              while (true) {
                checkpointer.free_buffer();
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
              }
            },
            Exit::internal) == "rows: error: out of order");
}

TEST_CASE("saves: a rank that cannot write its part says so to rank 0") {
  const TempFolder folder;
  const Workdir workdir(folder.path());
  const Variable wait("BVTRAIN_RETRY_AFTER", "0");
  Checkpointer first(workdir, {0, 2, "5a", 600}), second(workdir, {1, 2, "5a", 600});
  first.start();
  const std::string shard =
      workdir.ckpt().unfinished(3, "1.5a") + "/state-00001-of-00002.safetensors";
  fs::create_directories(shard);
  Snapshot own;
  own.step = 3;
  second.save(std::move(own), false);
  first.save(kernel_state(3), false);
  CHECK(error_of([&] { first.wait(); }, Exit::storage) ==
        workdir.ckpt().unfinished(3, "1.5a") + ": error: rank 1: " + shard +
            ": error: cannot create: Is a directory");
  CHECK(error_of([&] { second.wait(); }, Exit::storage) ==
        shard + ": error: cannot create: Is a directory");
  CHECK(steps(workdir).empty());
}

TEST_CASE("saves: rank 0 deletes a failed save when no other rank writes in it any more") {
  const TempFolder folder;
  const Workdir workdir(folder.path());
  const Variable wait("BVTRAIN_RETRY_AFTER", "0");
  Checkpointer first(workdir, {0, 3, "5a", 600}), third(workdir, {2, 3, "5a", 600});
  first.start();
  const std::string unfinished = workdir.ckpt().unfinished(3, "1.5a");
  fs::create_directories(unfinished);
  write(unfinished + "/part-1.failed", "the disk is full");
  first.save(kernel_state(3), false);
  CHECK_FALSE(wait_until([&] { return !file_exists(unfinished); }, 0.2));
  third.save(kernel_state(3), false);
  CHECK_NOTHROW(third.wait());
  CHECK(error_of([&] { first.wait(); }, Exit::storage) ==
        unfinished + ": error: rank 1: the disk is full");
  CHECK_FALSE(file_exists(unfinished));
}

TEST_CASE("saves: a full disk is noticed before anything is written") {
  const TempFolder folder;
  if (::geteuid() != 0 || ::mount("none", folder.path().c_str(), "tmpfs", 0, "size=1m") != 0) {
    WARN("skipped: only root may mount");
    return;
  }
  const Variable wait("BVTRAIN_RETRY_AFTER", "0");
  {
    const Workdir workdir(folder.path());
    Checkpointer checkpointer(workdir);
    checkpointer.save(kernel_state(1), false);
    checkpointer.wait();
    checkpointer.save(kernel_state(2, 1 << 20), false);
    const std::string line = error_of([&] { checkpointer.wait(); }, Exit::storage);
    const std::string expected = workdir.ckpt().unfinished(2, "") +
                                 ": error: needs 4.0 MiB for the next checkpoint, but only ";
    CHECK(line.substr(0, expected.size()) == expected);
    checkpointer.save(kernel_state(3), false);
    checkpointer.wait();
    CHECK(steps(workdir) == std::vector<int64_t>{1, 3});
    CHECK(error_of([&] { require_room(folder.path(), int64_t{1} << 40); }, Exit::storage) ==
          folder.path() + ": error: needs 1.0 TiB for the next checkpoint, but only " +
              human_bytes(static_cast<double>(fs::space(folder.path()).available)) + " are free");
  }
  ::umount(folder.path().c_str());
}

}  // namespace bv::test
