// Checkpoints: saving and loading, pruning compared with a model, and failed writes.
#include "lib/ckpt/checkpointer.h"

#include <ATen/ATen.h>
#include <sys/resource.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <thread>

#include "lib/util/file.h"
#include "test/ckpt/states.h"
#include "test/ckpt/support.h"
#include "test/support/clock.h"
#include "test/support/limits.h"

namespace bv::test {
namespace {

namespace fs = std::filesystem;

}  // namespace

TEST_CASE("checkpointer: what is saved comes back, from each of its names") {
  const MemoryFolder folder;
  const Workdir workdir(folder.path());
  CHECK(Checkpointer::latest(workdir) == std::nullopt);
  {
    Checkpointer checkpointer(workdir);
    checkpointer.save(state_of(7), false);
    checkpointer.wait();
    CHECK(workdir.ckpt().steps() == std::vector<int64_t>{7});
    checkpointer.save(state_of(12), true);
  }  // waits
  CHECK(names_in(workdir.ckpt().path()) == std::set<std::string>{"LAST", "step-7", "step-12"});
  CHECK(names_in(workdir.ckpt().step(12)) ==
        std::set<std::string>{"manifest.json", "state-00000-of-00001.safetensors"});
  CHECK(read_file(workdir.ckpt().path() + "/LAST") == "step-12\n");
  check_state(Checkpointer::latest(workdir).value(), 12);
  check_state(Checkpointer::load(workdir.dir()), 12);
  check_state(Checkpointer::load(workdir.ckpt().path()), 12);
  check_state(Checkpointer::load(workdir.ckpt().step(7)), 7);
  CHECK(Checkpointer::load(workdir.ckpt().step(7)).folder == workdir.ckpt().step(7));
  fs::rename(workdir.ckpt().step(7), folder / "elsewhere");
  check_state(Checkpointer::load(folder / "elsewhere"), 7);

  const auto manifest =
      nlohmann::json::parse(read_file(workdir.ckpt().step(12) + "/manifest.json"));
  CHECK(manifest.at("format") == 1);
  CHECK(manifest.at("step") == 12);
  CHECK(manifest.at("world_size") == 1);
  CHECK(manifest.at("keep") == true);
  CHECK(manifest.at("files").size() == 1);
  CHECK(manifest.at("files")[0].at("bytes") ==
        fs::file_size(workdir.ckpt().step(12) + "/state-00000-of-00001.safetensors"));
}

TEST_CASE(
    "checkpointer: a wrong LAST and leftovers do no harm, and the first save removes leftovers") {
  const MemoryFolder folder;
  const Workdir workdir(folder.path());
  save_all(workdir, {5});
  const std::string root = workdir.ckpt().path();
  std::ofstream(root + "/LAST") << "step-999\n";
  fs::copy(root + "/step-5", root + "/step-6.tmp");
  fs::copy(root + "/step-5", root + "/.trash-step-4");
  fs::copy(root + "/step-5", root + "/.old-step-5");
  std::ofstream(root + "/LAST.tmp123-0") << "step-";
  std::ofstream(root + "/notes.tmp") << "the user's own";
  check_state(Checkpointer::latest(workdir).value(), 5);
  save_all(workdir, {8});
  CHECK(names_in(root) == std::set<std::string>{"LAST", "step-5", "step-8", "notes.tmp"});
}

TEST_CASE("checkpointer: a checkpoint is committed only after before_commit") {
  const MemoryFolder folder;
  const Workdir workdir(folder.path());
  Checkpointer checkpointer(workdir);
  checkpointer.save(state_of(1), false);
  checkpointer.wait();
  Snapshot second = state_of(2);
  second.before_commit = [&] {
    CHECK(workdir.ckpt().steps() == std::vector<int64_t>{1});
    throw Error(Exit::storage, "metrics.jsonl", "cannot write: No space left on device");
  };
  checkpointer.save(std::move(second), false);
  CHECK(error_of([&] { checkpointer.wait(); }, Exit::storage) ==
        "metrics.jsonl: error: cannot write: No space left on device");
  CHECK(workdir.ckpt().steps() == std::vector<int64_t>{1});
  CHECK(names_in(workdir.ckpt().path()) == std::set<std::string>{"LAST", "step-1"});
}

TEST_CASE("checkpointer: a save waits for values that are still on the way from a device") {
  const MemoryFolder folder;
  const Workdir workdir(folder.path());
  Checkpointer checkpointer(workdir);
  Snapshot late = state_of(0);
  late.step = 5;
  late.await_values = [tensors = late.tensors] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    tensors.at("params/head/kernel").fill_(5);
    tensors.at("opt/count").fill_(5);
  };
  late.meta = state_of(5).meta;
  checkpointer.save(std::move(late), true);
  Snapshot lost = state_of(6);
  lost.await_values = [] { throw std::runtime_error("CUDA error: unknown error"); };
  checkpointer.save(std::move(lost), true);
  CHECK_THROWS_WITH(checkpointer.wait(), Catch::Contains("CUDA error: unknown error"));
  CHECK(workdir.ckpt().steps() == std::vector<int64_t>{5});
  check_state(Checkpointer::load(workdir.dir()), 5);
}

TEST_CASE("checkpointer: only the tensors that are wanted are kept, and all are verified") {
  const MemoryFolder folder;
  const Workdir workdir(folder.path());
  save_all(workdir, {10});
  const ReadOptions weights = {.wanted = weights_only};
  const Restored read = Checkpointer::load(workdir.dir(), weights);
  REQUIRE(read.tensors.size() == 1);
  CHECK((read.tensors.at("params/head/kernel") == 10).all().item<bool>());
  CHECK(read.pieced.empty());
}

// The guarantee: of the committed checkpoints, the two newest and those to keep are kept, all
// others are removed.
TEST_CASE("checkpointer: pruning agrees with a model of it") {
  const MemoryFolder folder;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const Workdir workdir(folder / std::to_string(seed));
    std::mt19937 random(seed);
    std::map<int64_t, bool> model;  // committed step -> keep
    int64_t step = 0;
    auto checkpointer = std::make_unique<Checkpointer>(workdir);
    for (int i = 0; i < 12; ++i) {
      step += 1 + random() % 5;
      const bool keep = random() % 4 == 0;
      if (random() % 4 == 0) checkpointer = std::make_unique<Checkpointer>(workdir);  // a restart
      if (random() % 8 == 0 && !model.empty()) step = model.rbegin()->first;  // the same step again
      checkpointer->save(state_of(step), keep);
      checkpointer->wait();
      model[step] = keep;
      int newest = 0;
      std::vector<int64_t> expected;
      for (auto it = model.rbegin(); it != model.rend();) {
        if (newest++ < 2 || it->second) {
          expected.insert(expected.begin(), it->first);
          ++it;
        } else {
          it = std::make_reverse_iterator(model.erase(std::prev(it.base())));
        }
      }
      CHECK(workdir.ckpt().steps() == expected);
      check_state(Checkpointer::latest(workdir).value(), step);
    }
    CHECK(names_in(workdir.ckpt().path()).size() == model.size() + 1);
  }
}

TEST_CASE("checkpointer: a checkpoint from which no run can continue replaces none") {
  const MemoryFolder folder;
  const Workdir workdir(folder.path());
  save_all(workdir, {10});
  const CkptFolder ckpt = workdir.ckpt();
  fs::copy(ckpt.step(10), ckpt.step(1000));  // it names step 10
  {
    Checkpointer checkpointer(workdir, {}, /*newest_kept=*/9);
    Snapshot weights = state_of(2000);
    weights.meta.erase("chrono");
    checkpointer.save(weights, false);
    checkpointer.wait();
  }
  Checkpointer resumed(workdir, {}, /*newest_kept=*/1);
  for (const int64_t step : {11, 12}) {
    resumed.save(state_of(step), false);
    resumed.wait();
    CHECK(ckpt.steps() == std::vector<int64_t>{step, 1000, 2000});
    check_state(Checkpointer::latest(workdir, {.resumes = true}).value(), step);
  }
}

TEST_CASE("checkpointer: files of others are not deleted") {
  const MemoryFolder folder;
  const Workdir workdir(folder.path());
  save_all(workdir, {1});
  fs::remove(workdir.ckpt().step(1) +
             "/manifest.json");  // so it is unknown whether it was to be kept
  fs::create_directories(workdir.ckpt().path() + "/best");
  save_all(workdir, {2, 3, 4});
  CHECK(names_in(workdir.ckpt().path()) ==
        std::set<std::string>{"LAST", "best", "step-1", "step-3", "step-4"});
}

TEST_CASE(
    "checkpointer: save returns before the file is written, and the tensors are released "
    "afterwards") {
  const MemoryFolder folder;
  const Workdir workdir(folder.path());
  // The save cannot end before save() has returned.
  std::atomic<bool> returned = false, in_time = false;
  Checkpointer checkpointer(workdir);
  Snapshot snapshot = state_of(1, int64_t{8} << 20);
  snapshot.before_commit = [&] { in_time = wait_until([&] { return returned.load(); }); };
  const at::Tensor watched = snapshot.tensors.at("params/head/kernel");
  checkpointer.save(std::move(snapshot), false);
  CHECK(workdir.ckpt().steps().empty());
  returned = true;
  CHECK(wait_until([&] { return !workdir.ckpt().steps().empty(); }));
  CHECK(in_time);
  CHECK(wait_until([&] { return watched.use_count() == 1; }));
}

TEST_CASE("checkpointer: a failed write is reported, and older checkpoints stay") {
  if (kThreadSanitized) return;
  const MemoryFolder folder;
  const Workdir workdir(folder.path());
  // In a child, because the limit on file sizes applies to the whole process.
  const int status = run_in_child([&] {
    ::setenv("BVTRAIN_RETRY_AFTER", "0", 1);
    Checkpointer checkpointer(workdir);
    checkpointer.save(state_of(1), false);
    checkpointer.wait();
    ::signal(SIGXFSZ, SIG_IGN);
    const struct rlimit limit = {10000, RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const auto expect_failure = [&](const std::function<void()>& call) {
      try {
        call();
      } catch (const Error& error) {
        const std::string line =
            workdir.ckpt().step(2) +
            ".tmp/state-00000-of-00001.safetensors: error: cannot write: File too large";
        if (error.code() == Exit::storage && error.what() == line) return;
      }
      ::_exit(50);
    };
    // Small enough to be filled without OpenMP: a forked child lacks its threads.
    checkpointer.save(state_of(2, 20000), false);
    expect_failure([&] { checkpointer.wait(); });
    checkpointer.wait();  // reported once
    if (workdir.ckpt().steps() != std::vector<int64_t>{1}) ::_exit(51);
    if (file_exists(workdir.ckpt().step(2) + ".tmp")) ::_exit(52);
    checkpointer.save(state_of(3), false);  // small enough again
    checkpointer.wait();
    if (workdir.ckpt().steps() != std::vector<int64_t>{1, 3}) ::_exit(53);
  });
  CHECK(WEXITSTATUS(status) == 0);
  check_state(Checkpointer::latest(workdir).value(), 3);
}

}  // namespace bv::test
