// ckpt/best: a separate checkpoint, which is kept when that of its step is deleted.
#include "lib/ckpt/best_checkpoint.h"

#include <ATen/ATen.h>
#include <sys/stat.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "lib/ckpt/checkpoint_folder.h"
#include "lib/ckpt/checkpointer.h"
#include "lib/ckpt/weights_file.h"
#include "lib/util/error.h"
#include "test/ckpt/support.h"
#include "test/support/error.h"

namespace bv::test {
namespace {

namespace fs = std::filesystem;

Snapshot state_with_ema(int64_t step) {
  Snapshot snapshot;
  snapshot.step = step;
  snapshot.tensors["params/bias"] = at::full({10}, static_cast<double>(step), at::kFloat);
  snapshot.tensors["ema/bias"] = at::full({10}, static_cast<double>(-step), at::kFloat);
  snapshot.meta = {{"config", "lr: 0.1"}};
  return snapshot;
}

double bias(const NamedTensors& tensors, const std::string& name) {
  return tensors.at(name)[0].item<double>();
}

ino_t inode(const std::string& file) {
  struct stat info {};
  REQUIRE(::stat(file.c_str(), &info) == 0);
  return info.st_ino;
}

}  // namespace

TEST_CASE("the best checkpoint stays when its step is deleted, and a better one replaces it") {
  const TempFolder folder;
  const Workdir workdir(folder.path());
  const std::string best = workdir.ckpt().best("");
  Checkpointer checkpointer(workdir, {}, /*newest_kept=*/1);
  const BestPoint second{"val/loss", false, 2, 0.1};
  checkpointer.save(state_with_ema(1), false);
  checkpointer.mark_best("", {"val/loss", false, 1, 0.5});
  checkpointer.save(state_with_ema(2), false);
  checkpointer.mark_best("", second);
  checkpointer.mark_best("acc", {"val/acc", true, 2, 0.9});
  checkpointer.wait();
  const std::string shard = "/" + shard_name(0, 1);
  CHECK(inode(best + shard) == inode(workdir.ckpt().step(2) + shard));  // takes no space
  checkpointer.save(state_with_ema(3), false);
  checkpointer.wait();

  CHECK(workdir.ckpt().steps() == std::vector<int64_t>{3});
  CHECK(workdir.ckpt().all_best() == std::vector<std::string>{best, best + "-acc"});
  CHECK(read_best(best) == second);
  for (const std::string& path : {best, folder.path() + ":best", workdir.ckpt().path() + ":best"}) {
    INFO(path);
    const Restored loaded = Checkpointer::load(path);
    CHECK(loaded.step == 2);
    CHECK(bias(loaded.tensors, "params/bias") == 2);
    CHECK(bias(read_weights(path, 0), "bias") == 2);
    CHECK(Checkpointer::peek(path)->step == 2);
    CHECK(is_checkpoint(path));
  }
  CHECK(bias(read_weights(folder.path() + ":best:ema", 0), "bias") == -2);
  for (const std::string& path : {best, folder.path() + ":best", folder.path()}) {
    CHECK(error_of([&] { Checkpointer::load(path + ":ema"); }) ==
          path + ":ema: error: ':ema' names averaged weights, which model_init takes; give " +
              path + " here, and for predict and export add --ema");
  }
  CHECK(error_of([&] { Checkpointer::load(best + "-x:ema"); }) ==
        best + "-x:ema: error: no such checkpoint");
  CHECK(Checkpointer::load(folder.path()).step == 3);
}

TEST_CASE("a best checkpoint that was put aside is taken back if it is the one") {
  const TempFolder folder;
  const Workdir workdir(folder.path());
  const std::string best = workdir.ckpt().best("loss");
  const BestPoint point{"val/loss", false, 1, 0.5};
  Checkpointer checkpointer(workdir);
  checkpointer.save(state_with_ema(1), false);
  checkpointer.mark_best("loss", point);
  checkpointer.wait();
  CHECK_FALSE(take_best_back(best, point));  // it is there
  const std::string aside = put_best_aside(best, 1);
  CHECK(aside == workdir.ckpt().path() + "/old-best-loss-step-1");
  CHECK_FALSE(take_best_back(best, {"val/loss", false, 1, 0.4}));
  CHECK_FALSE(take_best_back(best, {"val/loss", false, 2, 0.5}));
  CHECK(take_best_back(best, point));
  CHECK_FALSE(exists(aside));
  CHECK(read_best(best) == point);
  CHECK(Checkpointer::load(best).step == 1);
}

TEST_CASE("a best checkpoint that is not there is named") {
  const TempFolder folder;
  const Workdir workdir(folder.path());
  Checkpointer checkpointer(workdir);
  checkpointer.save(state_with_ema(1), false);
  checkpointer.wait();
  const std::string best = workdir.ckpt().best("");
  CHECK(error_of([&] { Checkpointer::load(folder.path() + ":best"); }) ==
        best + ": error: no such checkpoint (a run keeps its best checkpoint with the key 'best')");
  checkpointer.mark_best("", {"val/loss", false, 1, 0.5});
  checkpointer.wait();
  CHECK(error_of([&] { read_weights(folder.path() + ":best-x", 0); }) ==
        best + "-x: error: no such checkpoint; there is best");
  CHECK(checkpoint_path(folder.path() + ":ema") == folder.path() + ":ema");  // a subtree
  CHECK(!read_best(workdir.ckpt().step(1)));
}

TEST_CASE("a best checkpoint whose step is gone fails the next save") {
  const TempFolder folder;
  ::setenv("BVTRAIN_RETRY_AFTER", "0", 1);
  const Workdir workdir(folder.path());
  Checkpointer checkpointer(workdir);
  checkpointer.save(state_with_ema(1), false);
  checkpointer.mark_best("", {"val/loss", false, 9, 0.5});
  CHECK(error_of([&] { checkpointer.wait(); }, Exit::storage) ==
        workdir.ckpt().step(9) + ": error: manifest.json: is missing");
  ::unsetenv("BVTRAIN_RETRY_AFTER");
  CHECK(workdir.ckpt().all_best().empty());
  CHECK(!exists(workdir.ckpt().best("") + ".tmp"));
}

TEST_CASE("a start removes a best checkpoint that was not finished") {
  const TempFolder folder;
  const Workdir workdir(folder.path());
  fs::create_directories(workdir.ckpt().best("") + ".tmp");
  CHECK(workdir.ckpt().leftovers("") == std::vector<std::string>{workdir.ckpt().best("") + ".tmp"});
  CHECK(workdir.ckpt().all_best().empty());
}

TEST_CASE("the next claim brings back checkpoints that a killed process was replacing") {
  const MemoryFolder folder;
  const std::string ckpt = Workdir(folder.path()).ckpt().path();
  {
    const Workdir workdir(folder.path());
    Checkpointer checkpointer(workdir);
    for (const int64_t step : {1, 2}) checkpointer.save(state_with_ema(step), /*keep=*/true);
    checkpointer.mark_best("", {"val/loss", false, 2, 0.5});
    checkpointer.mark_best("x", {"val/loss", false, 1, 0.5});
    checkpointer.wait();
  }
  // A new best-x has taken its place, and step 3 was being deleted.
  fs::copy(ckpt + "/best-x", ckpt + "/.old-best-x");
  fs::copy(ckpt + "/step-2", ckpt + "/.old-step-3");
  fs::remove(ckpt + "/.old-step-3/" + shard_name(0, 1));
  // On NFS a folder may stay for a while, so that the name gets a number.
  fs::create_directories(ckpt + "/.old-best");
  fs::rename(ckpt + "/best", ckpt + "/.old-best~2");
  fs::rename(ckpt + "/step-2", ckpt + "/.old-step-2");

  Workdir workdir(folder.path());
  restore_replaced(workdir.ckpt(), std::set<std::string>());
  CHECK(workdir.ckpt().all_best() == std::vector<std::string>{workdir.ckpt().best("x")});
  restore_replaced(workdir.ckpt(), std::set{workdir.ckpt().best("")});
  CHECK(read_best(workdir.ckpt().best(""))->step == 2);
  CHECK(workdir.ckpt().steps() == std::vector<int64_t>{1});
  workdir.claim();
  CHECK(workdir.ckpt().steps() == std::vector<int64_t>{1, 2});
  CHECK(Checkpointer::load(workdir.ckpt().step(2)).step == 2);
  Checkpointer(workdir).start();
  CHECK(workdir.ckpt().leftovers("").empty());
  CHECK(workdir.ckpt().all_best().size() == 2);
}

TEST_CASE("a process without the lock leaves what the one with the lock is replacing") {
  const MemoryFolder folder;
  const Workdir second(folder.path());
  const std::string step = second.ckpt().step(1), old = second.ckpt().path() + "/.old-step-1";
  {
    Workdir running(folder.path());
    running.claim();
    Checkpointer checkpointer(running);
    checkpointer.save(state_with_ema(1), /*keep=*/true);
    checkpointer.wait();
    fs::rename(step, old);
    second.restore_unless_taken();
    CHECK(exists(old));
    CHECK_FALSE(exists(step));
  }
  // As if the process had been killed.
  folder.write(".lock", "123 there other-boot 0000000007\n");
  second.restore_unless_taken();
  CHECK(exists(step));
}

TEST_CASE("a best checkpoint is read whole while it is replaced") {
  const MemoryFolder folder;
  const Workdir workdir(folder.path());
  Checkpointer checkpointer(workdir);
  for (const int64_t step : {10, 20}) checkpointer.save(state_with_ema(step), /*keep=*/true);
  checkpointer.wait();
  const std::string best = workdir.ckpt().best("");
  const auto replace = [&](int64_t step) {
    write_best(best, workdir.ckpt().step(step), {"val/loss", false, step, 0.5});
  };
  replace(10);
  std::atomic<bool> done = false;
  int replaced = 0;
  std::thread writer([&] {
    for (; !done; ++replaced) {
      replace(replaced % 2 == 0 ? 20 : 10);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  int mixed = 0, failed = 0;
  for (int i = 0; i < 300; ++i) {
    try {
      const Restored read = Checkpointer::load(best);
      mixed += bias(read.tensors, "params/bias") == static_cast<double>(read.step) ? 0 : 1;
    } catch (const Error& error) {
      ++failed;
      UNSCOPED_INFO(error.what());
    }
  }
  done = true;
  writer.join();
  INFO(replaced);
  CHECK(mixed == 0);
  CHECK(failed == 0);
}

TEST_CASE("a best checkpoint is replaced where folders cannot be exchanged nor files linked") {
  const MemoryFolder folder;
  const Workdir workdir(folder.path());
  Checkpointer checkpointer(workdir);
  for (const int64_t step : {10, 20}) checkpointer.save(state_with_ema(step), /*keep=*/true);
  checkpointer.wait();
  const std::string best = workdir.ckpt().best(""), shard = "/" + shard_name(0, 1);
  ::setenv("BVTRAIN_WITHOUT", "exchange,link", 1);
  write_best(best, workdir.ckpt().step(10), {"val/loss", false, 10, 0.5});
  CHECK(inode(best + shard) != inode(workdir.ckpt().step(10) + shard));
  folder.write("ckpt/.old-best/left", "by another process");
  write_best(best, workdir.ckpt().step(20), {"val/loss", false, 20, 0.4});
  ::unsetenv("BVTRAIN_WITHOUT");
  CHECK(Checkpointer::load(best).step == 20);
  CHECK_FALSE(exists(workdir.ckpt().path() + "/.old-best"));
}

}  // namespace bv::test
