// Reading the files of one checkpoint: each file once, and each tensor once. What a run needs to
// continue.
#include "lib/ckpt/read_checkpoint.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "lib/ckpt/checkpointer.h"
#include "lib/ckpt/manifest.h"
#include "test/support/error.h"
#include "test/support/folder.h"
#include "test/support/opens.h"
#include "test/support/variable.h"

namespace bv::test {
namespace {

namespace fs = std::filesystem;

Snapshot snapshot_of(int64_t step) {
  Snapshot snapshot;
  snapshot.step = step;
  snapshot.tensors["params/head/kernel"] = at::ones({100});
  snapshot.tensors["opt/count"] = at::full({}, step, at::kLong);
  return snapshot;
}

void save_steps(const Workdir& workdir, const std::vector<int64_t>& steps) {
  Checkpointer checkpointer(workdir);
  for (const int64_t step : steps) checkpointer.save(snapshot_of(step), false);
  checkpointer.wait();
}

}  // namespace

TEST_CASE("a tensor that two files hold is refused") {
  const MemoryFolder folder;
  const Workdir workdir(folder.path());
  save_steps(workdir, {10, 20});
  const std::string newest = workdir.ckpt().step(20);
  Manifest manifest = read_manifest(newest);
  Manifest::File copy = manifest.files[0];
  copy.name = "copy.safetensors";
  fs::copy_file(newest + "/" + manifest.files[0].name, newest + "/" + copy.name);
  manifest.files.push_back(copy);
  std::ofstream(newest + "/manifest.json") << manifest.text();
  CHECK(error_of([&] { Checkpointer::load(newest); }) ==
        newest + ": error: copy.safetensors: tensor 'opt/count' is in the checkpoint twice");
  CHECK(Checkpointer::latest(workdir)->step == 10);
}

TEST_CASE("a run continues only from a checkpoint that holds what it takes") {
  const MemoryFolder folder;
  const Workdir workdir(folder.path());
  Checkpointer checkpointer(workdir);
  Snapshot whole = snapshot_of(10);
  whole.meta["compute_threads"] = 1;
  whole.meta["row"] = nlohmann::json::array();
  whole.meta["chrono"] = {{"accum_program_time", 0.5},
                          {"accum_train_time", 0.5},
                          {"accum_pause_time", 0},
                          {"accum_examples_seen", 7}};
  checkpointer.save(whole, false);
  checkpointer.save(snapshot_of(20), false);
  checkpointer.wait();
  CHECK(Checkpointer::latest(workdir)->step == 20);
  CHECK(Checkpointer::latest(workdir, {.resumes = true})->step == 10);
  CHECK(Checkpointer::peek(workdir.dir(), /*resumes=*/true)->step == 10);
  CHECK(error_of([&] { Checkpointer::load(workdir.ckpt().step(20), {.resumes = true}); }) ==
        workdir.ckpt().step(20) +
            ": error: manifest.json: meta.compute_threads is missing, so no run can continue from "
            "this checkpoint");
}

// If the run went back to step 10, it would lose steps, and step 20 would win at the next start.
TEST_CASE("a checkpoint that the disk cannot read is tried again, and is not a damaged one") {
  const Variable short_wait("BVTRAIN_RETRY_AFTER", "0.01");
  const MemoryFolder folder;
  const Workdir workdir(folder.path());
  save_steps(workdir, {10, 20});
  const std::string newest = workdir.ckpt().step(20), manifest = newest + "/manifest.json";
  fs::rename(manifest, folder / "whole");
  fs::create_symlink("/proc/self/mem", manifest);  // reading it fails with EIO
  const std::string line = newest + ": error: manifest.json: cannot read: Input/output error";
  CHECK(error_of([&] { Checkpointer::latest(workdir); }, Exit::storage) ==
        line +
            "; run the command again when the disk can be read, or move this folder away to use "
            "an older checkpoint");
  CHECK(error_of([&] { Checkpointer::latest_step(workdir.ckpt()); }, Exit::storage) == line);
  CHECK(error_of([&] { Checkpointer::load(newest); }, Exit::storage) == line);
  const Variable wait("BVTRAIN_RETRY_AFTER", "0.2");
  std::jthread repair([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    fs::rename(folder / "whole", manifest);
  });
  CHECK(Checkpointer::latest(workdir)->step == 20);
}

// If it were opened twice, another file might replace it between the size check and the read.
TEST_CASE("a file is opened once, to check its size and to read it") {
  const MemoryFolder folder;
  const Workdir workdir(folder.path());
  save_steps(workdir, {10});
  const std::string step = workdir.ckpt().step(10), shard = step + "/" + shard_name(0, 1);
  CHECK(opens_of(shard, [&] { Checkpointer::load(step); }) == 1);
  CHECK(opens_of(shard, [&] { verify_checkpoint(step); }) == 1);
}

}  // namespace bv::test
