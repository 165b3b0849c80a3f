// Checkpoints that are damaged or cannot be loaded: which message names them, and what a run does
// with them.
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "lib/ckpt/best_checkpoint.h"
#include "lib/ckpt/checkpointer.h"
#include "lib/util/file.h"
#include "test/ckpt/states.h"
#include "test/ckpt/support.h"
#include "test/support/logged.h"

namespace bv::test {
namespace {

namespace fs = std::filesystem;

void flip(const std::string& file, size_t at, int bit = 0) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(at));
  const char byte = static_cast<char>(stream.get() ^ (1 << bit));
  stream.seekp(static_cast<std::streamoff>(at));
  stream.put(byte);
}

}  // namespace

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

TEST_CASE("checkpointer: a fall back names a newer best checkpoint, from which a run continues") {
  const MemoryFolder folder;
  const Workdir workdir(folder.path());
  save_all(workdir, {5, 10});
  const CkptFolder ckpt = workdir.ckpt();
  const std::string best = ckpt.best("loss");
  write_best(best, ckpt.step(10), {"val/loss", false, 10, 0.5});
  write_best(ckpt.best("old"), ckpt.step(5), {"val/loss", false, 5, 0.5});
  fs::remove(ckpt.step(10) + "/state-00000-of-00001.safetensors");
  const auto told = [&](int64_t step) {
    return logged([&] { check_state(Checkpointer::latest(workdir).value(), step); });
  };
  const std::string text = told(5);
  CHECK(text.find(fmt::format("{0} is intact and of step 10, newer than step-5: to continue a run "
                              "from it, stop the run, delete {1} and rename {0} to {1}",
                              best, ckpt.step(10))) != std::string::npos);
  CHECK(text.find("best-old") == std::string::npos);
  fs::remove_all(ckpt.step(10));
  fs::rename(best, ckpt.step(10));
  const Restored again = Checkpointer::latest(workdir, {.resumes = true}).value();
  CHECK(again.step == 10);
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

}  // namespace bv::test
