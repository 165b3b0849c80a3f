// Workdirs: what is rejected before anything is created, the lock, DONE and --cleanup.
#include "lib/ckpt/workdir/workdir.h"

#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <fstream>
#include <memory>
#include <set>
#include <thread>

#include "lib/util/file.h"
#include "lib/util/temporary_file.h"
#include "test/ckpt/support.h"
#include "test/support/clock.h"
#include "test/support/limits.h"
#include "test/support/logged.h"

namespace bv::test {

namespace fs = std::filesystem;

TEST_CASE("workdir: check_writable accepts what can be created, and creates nothing") {
  const MemoryFolder folder;
  for (const std::string& dir : {folder.path(), folder / "new", folder / "a/b/c", folder / "d/"}) {
    CHECK(error_of([&] { Workdir(dir).check_writable(); }) == "");
  }
  CHECK(fs::is_empty(folder.path()));
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  CHECK(error_of([] { Workdir("out/digits").check_writable(); }) == "");
  fs::current_path(before);
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("workdir: check_writable refuses by name what cannot be created") {
  const MemoryFolder folder;
  std::ofstream(folder / "file") << "x";
  fs::create_symlink(folder / "nowhere", folder / "link");
  const auto line = [&](const std::string& dir) {
    return error_of([&] { Workdir(dir).check_writable(); });
  };
  CHECK(line("") == "--workdir: error: the path is empty");
  CHECK(line(folder / "file") == fmt::format("{}: error: cannot be the workdir: {} is not a folder",
                                             folder / "file", folder / "file"));
  CHECK(line(folder / "file/a/b") ==
        fmt::format("{}: error: cannot be the workdir: {} is not a folder", folder / "file/a/b",
                    folder / "file"));
  CHECK(line("/dev/null/x") ==
        "/dev/null/x: error: cannot be the workdir: /dev/null is not a folder");
  CHECK(line(folder / "link/a") ==
        fmt::format("{}: error: cannot be the workdir: {} is a broken symbolic link",
                    folder / "link/a", folder / "link"));
  const std::string longest = folder / std::string(300, 'x');
  CHECK(line(longest) ==
        fmt::format("{}: error: cannot be the workdir: {}: File name too long", longest, longest));
  for (const char* scheme : {"gs", "s3", "hdfs", "http", "https"}) {
    const std::string path = fmt::format("{}://b/x", scheme);
    CHECK(line(path) == path +
                            ": error: remote paths are not supported; mount the bucket (e.g. "
                            "gcsfuse) or copy, and give a local path");
  }
  CHECK(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 2);
}

TEST_CASE("workdir: a folder without write permission, and a read-only file system") {
  const MemoryFolder folder;
  fs::create_directory(folder / "a");
  const std::string line =
      fmt::format("{0}/x: error: cannot be the workdir: {0} cannot be written: ", folder / "a");
  if (::geteuid() != 0) {
    ::chmod((folder / "a").c_str(), 0500);
    CHECK(error_of([&] { Workdir(folder / "a/x").check_writable(); }) ==
          line + "Permission denied");
    CHECK(error_of([&] { Workdir(folder / "a/x").check_path(); }) == "");
    ::chmod((folder / "a").c_str(), 0);
    CHECK(error_of([&] { Workdir(folder / "a/x").check_path(); }) == "");
    CHECK(
        error_of([&] { Workdir(folder / "a/x").check_writable(); }) ==
        fmt::format("{0}/x: error: cannot be the workdir: {0}/x: Permission denied", folder / "a"));
    ::chmod((folder / "a").c_str(), 0700);
    return;
  }
  if (::mount("none", (folder / "a").c_str(), "tmpfs", MS_RDONLY, nullptr) != 0) {
    WARN("skipped: this root may not mount");
    return;
  }
  CHECK(error_of([&] { Workdir(folder / "a/x").check_writable(); }, Exit::storage) ==
        line + "Read-only file system");
  CHECK(error_of([&] { Workdir(folder / "a/x").check_path(); }) == "");
  ::umount((folder / "a").c_str());
}

TEST_CASE("workdir: a disk that is full is a storage error from the first write on") {
  const MemoryFolder folder;
  ::signal(SIGXFSZ, SIG_IGN);
  std::string line;
  {
    const Limit none(RLIMIT_FSIZE, 0);
    line = error_of([&] { Workdir(folder.path()).claim(); }, Exit::storage);
  }
  CHECK(line == folder / ".lock: error: cannot write: File too large");
  fs::create_directory(folder / "a");
  if (::geteuid() != 0 ||
      ::mount("none", (folder / "a").c_str(), "tmpfs", 0, "size=4k,nr_inodes=2") != 0) {
    WARN("the rest is skipped: this user may not mount");
    return;
  }
  std::ofstream(folder / "a/only") << "x";
  CHECK(error_of([&] { Workdir(folder / "a/x").claim(); }, Exit::storage) ==
        folder / "a/x: error: cannot make the folder: No space left on device");
  ::umount((folder / "a").c_str());
}

TEST_CASE("workdir: a run notices that its folder is gone or is another one") {
  const MemoryFolder folder;
  const std::string dir = folder / "w", moved = folder / "moved";
  Workdir workdir(dir);
  const std::shared_ptr<const ClaimedFolder> claimed = workdir.folder();
  const auto line = [&] { return error_of([&] { claimed->require_there(); }, Exit::storage); };
  CHECK(line() == "");  // not claimed yet
  workdir.claim();
  CHECK(line() == "");
  const std::string gone =
      dir +
      ": error: the workdir is gone: it was moved, deleted or unmounted during the run; put it "
      "back before you start the run again, which would otherwise begin at step 0";
  fs::rename(dir, moved);
  CHECK(line() == gone);
  fs::create_directory(dir);
  CHECK(line() == gone);
  Workdir(dir).claim();  // by another run, which ends
  CHECK(line() == gone);
  fs::remove_all(dir);
  std::ofstream(dir) << "a file";
  CHECK(line() == gone);
  fs::remove(dir);
  fs::rename(moved, dir);
  CHECK(line() == "");
  fs::remove(workdir.lock());  // the folder is the same
  CHECK(line() == "");
  fs::create_symlink(dir, moved);
  Workdir rank(moved);  // of another rank, which does not claim it
  rank.remember();
  fs::rename(dir, folder / "away");
  CHECK(error_of([&] { rank.folder()->require_there(); }, Exit::storage).starts_with(moved));
  fs::remove_all(folder / "away");
  CHECK(line() == gone);
}

TEST_CASE("workdir: committed steps and DONE") {
  const MemoryFolder folder;
  const Workdir workdir(folder.path());
  CHECK(workdir.ckpt().steps().empty());
  for (const char* name : {"step-10", "step-2", "step-0", "step-9223372036854775807", "step-3.tmp",
                           "step-", "step-007", "step--1", "step-+4", "step-5x", "STEP-6", "best",
                           ".trash-step-8", "step-9223372036854775808"}) {
    fs::create_directories(folder / "ckpt/" + name);
  }
  std::ofstream(folder / "ckpt/step-77") << "a file";
  CHECK(workdir.ckpt().steps() == std::vector<int64_t>{0, 2, 10, INT64_MAX});

  CHECK(!workdir.finished());
  workdir.write_done(1234);
  CHECK(workdir.finished()->step == 1234);
  CHECK(workdir.finished()->early.empty());
  workdir.write_done(12, "stopped early: no better");
  CHECK(read_text(workdir.done()) == "12\nstopped early: no better\n");
  CHECK(workdir.finished()->step == 12);
  CHECK(workdir.finished()->early == "stopped early: no better");
  for (const char* text : {"", "x", "-1", "12 13", "99999999999999999999", "1.5"}) {
    std::ofstream(workdir.done()) << text;
    CHECK(!workdir.finished());
  }
  std::ofstream(workdir.done()) << std::string(100000, '1');
  CHECK(!workdir.finished());
}

TEST_CASE("workdir: temporary files of dead writers go at the start and with --cleanup") {
  const MemoryFolder folder;
  const std::string dir = folder / "run";
  fs::create_directories(dir + "/trace");
  const pid_t child = ::fork();
  if (child == 0) {
    for (const char* name : {"run.json", "eval-000000005.npz", "trace/rank-1.json"})
      std::ofstream(temporary_name(dir + "/" + name)) << "half";
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  // Files of this process, which is alive; of another host, new and old; and similar names.
  const std::string mine = temporary_name(dir + "/predictions.csv");
  const std::string far = dir + "/metrics.jsonl.tmp-00000000-77-3";
  const std::string old = dir + "/metrics.jsonl.tmp-00000000-77-2";
  const std::vector<std::string> others = {dir + "/notes.tmp", dir + "/a.tmp-12-3",
                                           dir + "/a.tmp-0000000g-1-1"};
  for (const std::string& file : {mine, far, old, others[0], others[1], others[2]})
    std::ofstream(file) << "x";
  fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::hours(49));
  Workdir workdir(dir);
  workdir.claim();
  std::set<std::string> left;
  for (const auto& entry : fs::recursive_directory_iterator(dir))
    if (entry.is_regular_file()) left.insert(entry.path());
  CHECK(left == std::set<std::string>{mine, far, others[0], others[1], others[2], workdir.lock()});
  std::ofstream(dir + "/metrics.jsonl.damaged-2") << "x";
  std::vector<std::string> names;
  for (const std::string& file : {others[0], others[1], others[2], mine})
    names.push_back(fs::path(file).filename());
  std::sort(names.begin(), names.end());
  CHECK(workdir.remove() == names);
}

TEST_CASE("workdir: owns what a run or bvtrain eval keeps in it, and nothing else") {
  const MemoryFolder folder;
  for (const bool rows : {false, true}) {
    INFO(rows);
    const Workdir workdir(folder / (rows ? "rows" : "run"));
    fs::create_directories(workdir.dir());
    std::ofstream(workdir.config_until(5)) << "x";
    CHECK_FALSE(workdir.owns("metrics.jsonl"));  // so far it is any folder
    std::ofstream(rows ? workdir.evaluated() : workdir.run_json()) << "{}";
    for (const char* name : {"metrics.jsonl", "skipped.jsonl", "report.html", "run.json", "ckpt",
                             ".lock", "FAILED", "evaluated.json", "config-until-step-5.yaml"}) {
      INFO(name);
      CHECK(workdir.owns(name));
    }
    CHECK_FALSE(workdir.owns("predictions.csv"));
    CHECK_FALSE(workdir.owns("config-until-step-6.yaml"));
  }
}

TEST_CASE("workdir: the names of its folders") {
  for (const std::string& path : Workdir("out/w").folders()) {
    INFO(path);
    CHECK(path.starts_with("out/w/"));
    CHECK(Workdir::is_folder_of_run(fs::path(path).filename().string()));
  }
  for (const char* name : {"ckpt", "eval", "log", "post-mortem", "tb", "trace"}) {
    INFO(name);
    CHECK(Workdir::is_folder_of_run(name));
  }
  for (const char* name : {"", "out", "seed0", "ckpt2", "metrics.jsonl"}) {
    INFO(name);
    CHECK_FALSE(Workdir::is_folder_of_run(name));
  }
}

TEST_CASE("workdir: remove deletes a run's files and leaves those of others") {
  const MemoryFolder folder;
  const auto fill = [](const Workdir& workdir) {
    for (const auto& file :
         {workdir.config(), workdir.run_json(), workdir.result(), workdir.metrics(),
          workdir.report(), workdir.tensorboard() + "/events", workdir.log(0),
          workdir.ckpt().step(3) + "/manifest.json", workdir.done()}) {
      fs::create_directories(fs::path(file).parent_path());
      std::ofstream(file) << "x";
    }
  };
  Workdir clean(folder / "clean");
  clean.claim();
  fill(clean);
  CHECK(clean.remove().empty());
  CHECK_FALSE(fs::exists(clean.dir()));

  Workdir mixed(folder / "mixed");
  mixed.claim();
  fill(mixed);
  std::ofstream(mixed.dir() + "/thesis.tex") << "x";
  CHECK(mixed.remove() == std::vector<std::string>{"thesis.tex"});
  CHECK(std::distance(fs::directory_iterator(mixed.dir()), fs::directory_iterator()) == 1);
  // Its .lock is deleted, so the next run can claim the folder although `mixed` still exists.
  Workdir next(mixed.dir());
  next.claim();
  CHECK(fs::exists(next.lock()));
}

TEST_CASE("workdir: remove deletes the checkpoints behind a link, and says which links it leaves") {
  const MemoryFolder folder;
  Workdir workdir(folder / "run");
  workdir.claim();
  for (const char* file :
       {"disk/step-3/manifest.json", "disk/step-4.tmp/x", "disk/best/x", "disk/.trash-step-2/x",
        "disk/LAST", "disk/notes", "disk/step-by-step", "board/events"})
    folder.write(file, "x");
  fs::create_directory_symlink(folder / "disk", workdir.ckpt().path());
  fs::create_directory_symlink(folder / "board", workdir.tensorboard());
  const std::string told = logged([&] { CHECK(workdir.remove().empty()); });
  CHECK_FALSE(fs::exists(workdir.dir()));
  CHECK(names_in(folder / "disk") == std::set<std::string>{"notes", "step-by-step"});
  CHECK(fs::exists(folder / "board/events"));
  CHECK(told.find(workdir.tensorboard() + " is a link; what is in ") != std::string::npos);
  CHECK(told.find(workdir.ckpt().path()) == std::string::npos);
}

// The run is complete, so a file that stays must not make it a failure.
TEST_CASE("workdir: remove goes on after a folder that it cannot delete") {
  const MemoryFolder folder;
  Workdir workdir(folder / "run");
  workdir.claim();
  std::string deep = fs::path(workdir.log(0)).parent_path().string();
  for (int i = 0; i < 40; ++i) deep += "/a";
  for (const auto& path : {deep, workdir.ckpt().step(3)}) fs::create_directories(path);
  for (const auto& file : {workdir.metrics(), workdir.done(), workdir.dir() + "/thesis.tex"})
    std::ofstream(file) << "x";
  std::vector<std::string> left;
  {
    // Each level of a folder that is deleted takes a descriptor. Only eight are free.
    std::vector<int> free;
    for (int i = 0; i < 8; ++i) free.push_back(::dup(STDERR_FILENO));
    const Limit descriptors(RLIMIT_NOFILE, static_cast<rlim_t>(free.back()) + 1);
    for (const int fd : free) ::close(fd);
    left = workdir.remove();
  }
  CHECK(left == std::vector<std::string>{"log", "thesis.tex"});
  CHECK(std::distance(fs::directory_iterator(workdir.dir()), fs::directory_iterator()) == 2);
}

TEST_CASE("workdir: remove leaves DONE beside checkpoints that it cannot delete") {
  const MemoryFolder folder;
  Workdir workdir(folder / "run");
  workdir.claim();
  std::string deep = workdir.ckpt().step(3);
  for (int i = 0; i < 40; ++i) deep += "/a";
  fs::create_directories(deep);
  for (const auto& file : {workdir.metrics(), workdir.done()}) std::ofstream(file) << "x";
  {
    std::vector<int> free;
    for (int i = 0; i < 8; ++i) free.push_back(::dup(STDERR_FILENO));
    const Limit descriptors(RLIMIT_NOFILE, static_cast<rlim_t>(free.back()) + 1);
    for (const int fd : free) ::close(fd);
    workdir.remove();
  }
  CHECK(fs::exists(deep));
  CHECK(fs::exists(workdir.done()));
  CHECK(fs::exists(workdir.metrics()));
  CHECK_FALSE(fs::exists(workdir.lock()));
}

TEST_CASE("a path with :best means a best checkpoint only behind a folder") {
  const TempFolder folder;
  folder.write("w.npz", "x");
  CHECK(checkpoint_path(folder / "w.npz:best") == folder / "w.npz:best");  // a subtree
  folder.make("run/ckpt");
  CHECK(checkpoint_of_averages(folder / "run:ema") == folder / "run");
  folder.make("run/ckpt/best");
  CHECK(checkpoint_of_averages(folder / "run:best:ema") == folder / "run:best");
  fs::remove(folder / "run/ckpt/best");
  CHECK(checkpoint_of_averages(folder / "run:best").empty());
  CHECK(checkpoint_of_averages(folder / "none:ema").empty());
  folder.make("named:ema");
  folder.make("named");
  CHECK(checkpoint_of_averages(folder / "named:ema").empty());
  CHECK(error_of([&] { checkpoint_path(folder / "run:best"); }).find("no such checkpoint") !=
        std::string::npos);
}

}  // namespace bv::test
