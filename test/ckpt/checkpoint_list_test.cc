// The list of a run's checkpoints, their faults, and removing some of them.
#include "lib/ckpt/command/checkpoint_list.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <tuple>

#include "lib/ckpt/checkpoint_folder.h"
#include "lib/ckpt/checkpointer.h"
#include "lib/ckpt/command/checkpoint_removal.h"
#include "lib/util/file.h"
#include "test/ckpt/support.h"
#include "test/support/logged.h"

namespace bv::test {
namespace {

namespace fs = std::filesystem;

using Words = std::vector<std::string>;
using Steps = std::vector<int64_t>;

constexpr const char* kShard = "/state-00000-of-00001.safetensors";

// A run with checkpoints of steps 10 (kept), 20, 30 and 40; the best one is that of step 20.
struct ListedRun {
  MemoryFolder folder;
  Workdir workdir{folder.path()};
  CkptFolder ckpt = workdir.ckpt();

  ListedRun() {
    Checkpointer checkpointer(workdir, {}, /*newest_kept=*/9);
    for (const int64_t step : {10, 20, 30, 40}) {
      Snapshot snapshot;
      snapshot.step = step;
      snapshot.tensors["params/w"] = at::full({1000}, static_cast<double>(step), at::kFloat);
      snapshot.meta = {{"config", "{}"}};
      checkpointer.save(std::move(snapshot), /*keep=*/step == 10);
      if (step == 20) checkpointer.mark_best("", {"val/loss", false, 20, 0.125});
      checkpointer.wait();
    }
    folder.write("metrics.jsonl",
                 "{\"step\": 10, \"training_loss\": 2, \"val/loss\": 0.25, \"val/prec@1\": 0.5}\n"
                 "{\"step\": 20, \"training_loss\": 1, \"val/loss\": 0.125, \"val/prec@1\": 0.75}\n"
                 "{\"step\": 30, \"training_loss\": 3}\n");
  }
  void cut_off(const std::string& checkpoint) const {
    fs::resize_file(checkpoint + kShard, fs::file_size(checkpoint + kShard) - 1);
  }
  // Changes a byte of the last tensor, so that the size stays correct.
  void damage(const std::string& checkpoint) const {
    std::string content = read_file(checkpoint + kShard);
    content.back() = static_cast<char>(content.back() ^ 1);
    write(checkpoint + kShard, content);
  }
};

}  // namespace

TEST_CASE("the list says of each checkpoint what was measured and why it is kept") {
  const ListedRun run;
  const CheckpointList list = list_checkpoints(run.folder.path());
  CHECK(list.metric == "val/prec@1");
  REQUIRE(list.checkpoints.size() == 5);
  Words names;
  for (const ListedCheckpoint& each : list.checkpoints) {
    INFO(each.name);
    names.push_back(each.name);
    CHECK(each.fault.empty());
    CHECK(each.bytes ==
          fs::file_size(each.folder + kShard) + fs::file_size(each.folder + "/manifest.json"));
    CHECK(each.saved > 0);
  }
  CHECK(names == Words{"step-10", "step-20", "step-30", "step-40", "best"});
  const auto& [ten, twenty, thirty, forty, best] =
      std::tie(list.checkpoints[0], list.checkpoints[1], list.checkpoints[2], list.checkpoints[3],
               list.checkpoints[4]);
  CHECK(ten.why == Words{"keep_ckpt"});
  CHECK(twenty.why == Words{"recent"});
  CHECK(forty.why == Words{"newest"});
  CHECK(best.why == Words{"best val/loss 0.125"});
  CHECK(ten.value == 0.5);
  CHECK(best.step == 20);
  CHECK(best.value == 0.75);
  CHECK(!thirty.value);
  CHECK(!forty.value);

  CHECK(list_checkpoints(run.ckpt.path() + "/").metric == "val/prec@1");
  CHECK(list_checkpoints(run.folder.path() + ":best").checkpoints.at(0).name == "best");
}

TEST_CASE("the list has the values of a run whose ckpt/ is a symbolic link") {
  const ListedRun run;
  const MemoryFolder other;
  fs::rename(run.ckpt.path(), other / "moved");
  fs::create_directory_symlink(other / "moved", run.ckpt.path());
  CHECK(list_checkpoints(run.folder.path()).metric == "val/prec@1");
  CHECK(list_checkpoints(run.ckpt.path()).metric == "val/prec@1");
  CHECK(list_checkpoints(run.ckpt.step(20)).checkpoints.at(0).value == 0.75);
  // A link to a folder of checkpoints beside the rows: the path does not name the workdir.
  fs::remove(run.ckpt.path());
  fs::rename(other / "moved", run.ckpt.path());
  fs::create_directory_symlink(run.ckpt.path(), other / "link");
  CHECK(list_checkpoints(other / "link").metric == "val/prec@1");
}

TEST_CASE("the list names a wrong manifest and a wrong size, verifying also a changed byte") {
  const ListedRun run;
  run.cut_off(run.ckpt.step(40));
  run.damage(run.ckpt.step(30));
  fs::remove(run.ckpt.step(20) + "/manifest.json");
  const std::vector<ListedCheckpoint> all = list_checkpoints(run.folder.path()).checkpoints;
  CHECK(all[1].fault == "manifest.json: is missing");
  CHECK(all[1].why.empty());
  CHECK(all[2].fault.empty());
  CHECK(all[2].why == Words{"newest"});
  CHECK(all[3].fault.starts_with("state-00000-of-00001.safetensors: has "));
  CHECK(all[3].why.empty());

  const auto fault = [&](const std::string& folder) {
    return checkpoint_fault(folder, FaultSearch::checksums);
  };
  CHECK(fault(run.ckpt.step(10)).empty());
  CHECK(fault(run.ckpt.step(30)) ==
        "state-00000-of-00001.safetensors: checksum of chunk 0 (offset 0) differs");
  CHECK(fault(run.ckpt.best("")).empty());  // of step 20, whose shard is intact
  fs::rename(run.ckpt.step(10), run.ckpt.step(11));
  CHECK(fault(run.ckpt.step(11)) == "manifest.json belongs to step 10");
}

TEST_CASE("a path without checkpoints is refused, and one that lost its manifest is not") {
  const ListedRun run;
  const MemoryFolder empty;
  const auto refused = [](const std::string& path) {
    return error_of([&] { checkpoint_folders(path); });
  };
  CHECK(refused(empty / "none") == empty / "none: error: no such checkpoint");
  CHECK(refused(empty.path()) == empty.path() +
                                     ": error: holds no checkpoint (neither manifest.json nor "
                                     "step-<n>/ nor ckpt/step-<n>/)");
  fs::remove(run.ckpt.step(20) + "/manifest.json");
  CHECK(checkpoint_folders(run.ckpt.step(20) + "/") == Words{run.ckpt.step(20)});

  CHECK(existing_steps(run.ckpt, {30, 10, 30}) == Steps{10, 30});
  CHECK(error_of([&] {
          existing_steps(run.ckpt, {10, 15});
        }) == run.ckpt.path() + ": error: has no checkpoint of step 15; there are 10, 20, 30, 40");
  CHECK(last_steps(run.ckpt, 2) == Steps{30, 40});
  CHECK(error_of([&] { last_steps(run.ckpt, 5); }) ==
        run.ckpt.path() + ": error: has fewer checkpoints than 5: only 4");
}

TEST_CASE("removing checkpoints keeps the newest whole one, and counts only what is freed") {
  const ListedRun run;
  run.damage(run.ckpt.step(40));
  CHECK(error_of([&] {
          removable_steps(run.ckpt, {10, 30});
        }) == run.ckpt.step(30) +
                  ": error: is the newest intact checkpoint, from which the run continues; nothing "
                  "was removed");
  CHECK(removable_steps(run.ckpt, {40, 10}) == Steps{10, 40});
  const Steps others = all_but_newest(run.ckpt);
  CHECK(others == Steps{10, 20, 40});
  CHECK_NOTHROW(require_unchanged(run.ckpt, {10, 20, 30, 40}));
  CHECK(error_of([&] {
          require_unchanged(run.ckpt, {10, 20, 30});
        }) ==
        run.ckpt.path() +
            ": error: a run has changed the checkpoints meanwhile; nothing was removed; run the "
            "command again");

  const auto bytes = [](const std::string& file) { return fs::file_size(file); };
  const std::string ten = run.ckpt.step(10), twenty = run.ckpt.step(20);
  const uint64_t whole = bytes(ten + kShard) + bytes(ten + "/manifest.json");
  const uint64_t manifest = bytes(twenty + "/manifest.json");
  const bool linked = fs::hard_link_count(twenty + kShard) == 2;
  for (const bool dry : {true, false}) {
    const std::vector<RemovedCheckpoint> removed = remove_checkpoints(run.ckpt, others, dry);
    REQUIRE(removed.size() == 3);
    CHECK(removed[0].freed == whole);
    // ckpt/best still has the file with the tensors.
    CHECK(removed[1].freed == manifest + (linked ? 0 : bytes(run.ckpt.best("") + kShard)));
    CHECK(run.ckpt.steps() == (dry ? Steps{10, 20, 30, 40} : Steps{30}));
  }
  CHECK(read_file(run.ckpt.last()) == "step-30\n");
  CHECK(Checkpointer::load(run.folder.path()).step == 30);
  CHECK(Checkpointer::load(run.folder.path() + ":best").step == 20);
  CHECK(run.ckpt.leftovers("").empty());
}

TEST_CASE("removing a checkpoint that is a symbolic link leaves its files, which a warning says") {
  const ListedRun run;
  const MemoryFolder other;
  fs::rename(run.ckpt.step(10), other / "moved");
  fs::create_directory_symlink(other / "moved", run.ckpt.step(10));
  std::vector<RemovedCheckpoint> removed;
  const std::string told =
      logged([&] { removed = remove_checkpoints(run.ckpt, {10}, /*dry=*/false); });
  REQUIRE(removed.size() == 1);
  CHECK(removed[0].freed == 0);
  CHECK(told.find("/step-10 is a link and is removed alone; what is in ") != std::string::npos);
  CHECK(run.ckpt.steps() == Steps{20, 30, 40});
  CHECK(file_exists((other / "moved") + kShard));
}

TEST_CASE("a checkpoint in the current folder has the name of that folder") {
  const ListedRun run;
  const std::string here = run.ckpt.step(10) + "/.";
  CHECK(list_checkpoints(here).checkpoints.at(0).name == "step-10");
  fs::rename(run.ckpt.step(10), run.ckpt.step(11));
  CHECK(checkpoint_fault(run.ckpt.step(11) + "/.", FaultSearch::sizes) ==
        "manifest.json belongs to step 10");
}

TEST_CASE("a manifest.json of something else does not hide the checkpoints of a workdir") {
  const ListedRun run;
  run.folder.write("manifest.json", "{}");
  CHECK(checkpoint_folders(run.folder.path()).size() == 5);
}

TEST_CASE("without a whole checkpoint only named ones are removed") {
  const ListedRun run;
  for (const int64_t step : run.ckpt.steps()) run.cut_off(run.ckpt.step(step));
  CHECK(error_of([&] { all_but_newest(run.ckpt); }) ==
        run.ckpt.path() +
            ": error: no checkpoint here is intact; list those to remove with --steps");
  CHECK(removable_steps(run.ckpt, {40}) == Steps{40});
  // The remains of an earlier removal by a killed process are no obstacle.
  write(run.ckpt.trash(40) + "/manifest.json", "{}");
  remove_checkpoint(run.ckpt, 40);
  CHECK(run.ckpt.steps() == Steps{10, 20, 30});
  CHECK(!file_exists(run.ckpt.trash(40)));
}

}  // namespace bv::test
