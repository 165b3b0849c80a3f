// Checkpoints: saving and loading, damage, pruning compared with a model, and failed writes.
#include "lib/ckpt/checkpointer.h"

#include <ATen/ATen.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <map>
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

void check_state(const Restored& restored, int64_t step) {
  CHECK(restored.step == step);
  REQUIRE(restored.tensors.size() == 2);
  CHECK(
      (restored.tensors.at("params/head/kernel") == static_cast<double>(step)).all().item<bool>());
  CHECK(restored.tensors.at("opt/count").item<int64_t>() == step);
  CHECK(restored.meta.at("step_too") == step);
  CHECK(restored.meta.at("classes") == nlohmann::json{"cat", "dog"});
}

void flip(const std::string& file, size_t at, int bit = 0) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(at));
  const char byte = static_cast<char>(stream.get() ^ (1 << bit));
  stream.seekp(static_cast<std::streamoff>(at));
  stream.put(byte);
}

std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& item : fs::directory_iterator(folder)) names.insert(item.path().filename());
  return names;
}

}  // namespace

TEST_CASE("checkpointer: what is saved comes back, from each of its names") {
  const MemoryFolder folder;
  const Workdir workdir(folder.path());
  CHECK(Checkpointer::latest(workdir) == std::nullopt);
  {
    Checkpointer checkpointer(workdir);
    CHECK(checkpointer.committed_step() == -1);
    checkpointer.save(state_of(7), false);
    checkpointer.wait();
    CHECK(checkpointer.committed_step() == 7);
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

TEST_CASE(
    "checkpointer: if no checkpoint is whole, the error names a best checkpoint that is whole") {
  const MemoryFolder folder;
  const Workdir workdir(folder.path());
  save_all(workdir, {5});
  const CkptFolder ckpt = workdir.ckpt();
  write_best(ckpt.best("loss"), ckpt.step(5), {"val/loss", false, 5, 0.5});
  write_file_atomically(ckpt.step(5) + "/manifest.json", "{");  // the best one has its own
  const auto line = [&] { return error_of([&] { Checkpointer::load(workdir.dir()); }); };
  const std::string name = ckpt.path() + ":best-loss";
  const std::string advice =
      "` checks each; '" + name + "' is intact: `predict`, `export` and `model_init` can read it";
  INFO(line());
  CHECK(line().ends_with("; `bvtrain ckpt verify " + ckpt.path() + advice));
  check_state(Checkpointer::load(name), 5);
  flip(ckpt.best("loss") + "/state-00000-of-00001.safetensors", 20);
  CHECK(line().ends_with("; `bvtrain ckpt verify " + ckpt.path() + "` checks each"));
}

TEST_CASE("checkpointer: load names what it refuses") {
  const MemoryFolder folder;
  std::ofstream(folder / "file") << "x";
  const auto line = [](const std::string& path) {
    return error_of([&] { Checkpointer::load(path); });
  };
  CHECK(line(folder / "none") == folder / "none: error: no such checkpoint");
  CHECK(line(folder / "file") ==
        folder /
            "file: error: not a folder; expected a checkpoint folder, a ckpt/ folder or a workdir");
  CHECK(line(folder.path()) == folder.path() +
                                   ": error: holds no checkpoint (neither manifest.json "
                                   "nor step-<n>/ nor ckpt/step-<n>/)");
  CHECK(line("gs://b/x") ==
        "gs://b/x: error: remote paths are not supported; mount the bucket (e.g. "
        "gcsfuse) or copy, and give a local path");
  const Workdir workdir(folder.path());
  save_all(workdir, {5});
  const std::string shard = workdir.ckpt().step(5) + "/state-00000-of-00001.safetensors";
  flip(shard, 20);
  CHECK(line(workdir.ckpt().step(5)) ==
        workdir.ckpt().step(5) +
            ": error: state-00000-of-00001.safetensors: checksum of chunk 0 (offset 0) differs");
  CHECK(line(workdir.dir()) == workdir.ckpt().path() +
                                   ": error: none of the 1 checkpoints here is intact; the newest, "
                                   "step-5: state-00000-of-00001.safetensors: checksum of chunk 0 "
                                   "(offset 0) differs; `bvtrain ckpt verify " +
                                   workdir.ckpt().path() + "` checks each");
  CHECK(error_of([&] { Checkpointer::latest(workdir); }) == line(workdir.dir()));
  const uint64_t bytes = fs::file_size(shard);
  fs::resize_file(shard, 100);
  CHECK(line(workdir.ckpt().step(5))
            .ends_with(fmt::format(".safetensors: has 100 bytes, the manifest says {}", bytes)));
  fs::remove(shard);
  CHECK(line(workdir.ckpt().step(5)) ==
        workdir.ckpt().step(5) + ": error: state-00000-of-00001.safetensors: is missing");
}

TEST_CASE("checkpointer: a damaged chunk is reported with its place") {
  const MemoryFolder folder;
  const Workdir workdir(folder.path());
  Checkpointer checkpointer(workdir);
  checkpointer.save(state_of(10, 10), false);
  checkpointer.wait();
  checkpointer.save(state_of(20, int64_t{40} << 18), false);  // 40 chunks of 1 MiB and a bit
  checkpointer.wait();
  const std::string shard = workdir.ckpt().step(20) + "/state-00000-of-00001.safetensors";
  check_state(Checkpointer::latest(workdir).value(), 20);
  for (const size_t chunk : {40, 33, 3}) {
    flip(shard, (chunk << 20) + 17);
    CHECK(
        error_of([&] { Checkpointer::load(workdir.ckpt().step(20)); }) ==
        fmt::format("{}: error: state-00000-of-00001.safetensors: checksum of chunk {} (offset {}) "
                    "differs",
                    workdir.ckpt().step(20), chunk, chunk << 20));
  }
  check_state(Checkpointer::latest(workdir).value(), 10);
}

TEST_CASE("checkpointer: every flipped byte of a checkpoint is noticed") {
  const MemoryFolder folder;
  const Workdir workdir(folder.path());
  save_all(workdir, {10, 20});
  for (const char* name : {"manifest.json", "state-00000-of-00001.safetensors"}) {
    const std::string file = workdir.ckpt().step(20) + "/" + name;
    const std::string whole = read_file(file);
    for (size_t at = 0; at < whole.size(); ++at) {
      flip(file, at, static_cast<int>(at % 8));
      if (error_of([&] { Checkpointer::load(workdir.ckpt().step(20)); }) == "")
        FAIL(name << ": byte " << at);
      if (at % 100 == 0) CHECK(Checkpointer::latest(workdir)->step == 10);
      flip(file, at, static_cast<int>(at % 8));
    }
    for (const size_t size : {size_t{0}, whole.size() - 1, whole.size() + 1}) {
      fs::resize_file(file, size);
      CHECK(Checkpointer::latest(workdir)->step == 10);
      std::ofstream(file, std::ios::binary) << whole;
    }
    REQUIRE(Checkpointer::latest(workdir)->step == 20);
  }
}

// All bits of 12 kB of tensors and their manifest.
TEST_CASE("checkpointer: every flipped bit of a checkpoint is noticed", "[.][flips]") {
  const MemoryFolder folder;
  const Workdir workdir(folder.path());
  Checkpointer checkpointer(workdir);
  checkpointer.save(state_of(10, 3000), false);
  checkpointer.wait();
  checkpointer.save(state_of(20, 3000), false);
  checkpointer.wait();
  int64_t flips = 0, fallbacks = 0;
  for (const char* name : {"manifest.json", "state-00000-of-00001.safetensors"}) {
    const std::string file = workdir.ckpt().step(20) + "/" + name;
    const auto bits = static_cast<int64_t>(fs::file_size(file)) * 8;
    for (int64_t i = 0; i < bits; ++i, ++flips) {
      flip(file, static_cast<size_t>(i / 8), static_cast<int>(i % 8));
      if (error_of([&] { Checkpointer::load(workdir.ckpt().step(20)); }) == "")
        FAIL(name << ": bit " << i);
      if (i % 100 == 0) {
        REQUIRE(Checkpointer::latest(workdir)->step == 10);
        ++fallbacks;
      }
      flip(file, static_cast<size_t>(i / 8), static_cast<int>(i % 8));
    }
  }
  REQUIRE(Checkpointer::latest(workdir)->step == 20);
  std::printf("%ld bits flipped, each noticed; %ld times the run fell back to the older one\n",
              static_cast<long>(flips), static_cast<long>(fallbacks));
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

TEST_CASE("checkpointer: a broken checkpoint never replaces a whole one") {
  const MemoryFolder folder;
  const Workdir workdir(folder.path());
  save_all(workdir, {10, 20});
  flip(workdir.ckpt().step(20) + "/state-00000-of-00001.safetensors", 300);
  check_state(Checkpointer::latest(workdir).value(), 10);
  {
    Checkpointer resumed(workdir);
    resumed.save(state_of(15), false);
    resumed.wait();
    CHECK(workdir.ckpt().steps() == std::vector<int64_t>{10, 15, 20});
    resumed.save(state_of(21), false);
    resumed.wait();
    CHECK(workdir.ckpt().steps() == std::vector<int64_t>{15, 20, 21});
    resumed.save(state_of(22), false);
  }
  CHECK(workdir.ckpt().steps() == std::vector<int64_t>{21, 22});
  check_state(Checkpointer::latest(workdir).value(), 22);
  // The resumed run saves the broken step again, which replaces it.
  flip(workdir.ckpt().step(22) + "/manifest.json", 5);
  save_all(workdir, {22});
  check_state(Checkpointer::latest(workdir).value(), 22);
  CHECK(names_in(workdir.ckpt().path()) == std::set<std::string>{"LAST", "step-21", "step-22"});
}

TEST_CASE("checkpointer: a restart reads only what the deletion of an old checkpoint requires") {
  const MemoryFolder folder;
  const Workdir workdir(folder.path());
  const CkptFolder ckpt = workdir.ckpt();
  const auto save = [](Checkpointer& checkpointer, int64_t step, bool keep = false) {
    checkpointer.save(state_of(step), keep);
    checkpointer.wait();
  };
  const auto flip_state = [&](int64_t step) {
    flip(ckpt.step(step) + "/state-00000-of-00001.safetensors", 300);
  };
  save_all(workdir, {10, 20});
  {
    Checkpointer resumed(workdir, {}, /*newest_kept=*/3);
    flip_state(20);
    save(resumed, 30);  // nothing is to be deleted, so nothing is read
    flip_state(20);     // whole again
    save(resumed, 40);
    CHECK(ckpt.steps() == std::vector<int64_t>{20, 30, 40});
    save(resumed, 50, /*keep=*/true);
  }
  CHECK(ckpt.steps() == std::vector<int64_t>{30, 40, 50});
  flip_state(50);  // there are two newer ones, so only the size of this one is checked
  {
    Checkpointer resumed(workdir, {}, /*newest_kept=*/4);
    save(resumed, 60);
    save(resumed, 70);
  }
  CHECK(ckpt.steps() == std::vector<int64_t>{40, 50, 60, 70});
  fs::resize_file(ckpt.step(40) + "/state-00000-of-00001.safetensors", 1);
  Checkpointer resumed(workdir, {}, /*newest_kept=*/4);
  save(resumed, 30);  // stays, because 40 does not count
  CHECK(ckpt.steps() == std::vector<int64_t>{30, 40, 50, 60, 70});
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
  CHECK(checkpointer.committed_step() != 1);
  returned = true;
  CHECK(wait_until([&] { return checkpointer.committed_step() == 1; }));
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
    if (checkpointer.committed_step() != 3) ::_exit(53);
  });
  CHECK(WEXITSTATUS(status) == 0);
  check_state(Checkpointer::latest(workdir).value(), 3);
}

}  // namespace bv::test
