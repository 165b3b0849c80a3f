// The workdir lock: who gets it, who is rejected, and who takes over.
#include "lib/ckpt/workdir/workdir_lock.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "lib/ckpt/workdir/workdir.h"
#include "lib/util/file.h"
#include "lib/util/host.h"
#include "test/ckpt/support.h"
#include "test/support/clock.h"
#include "test/support/limits.h"
#include "test/support/logged.h"
#include "test/support/text.h"
#include "test/support/variable.h"

namespace bv::test {

namespace fs = std::filesystem;

TEST_CASE("workdir: one run holds it; a second is told who; kill -9 frees it") {
  if (kThreadSanitized) return;
  const MemoryFolder folder;
  const std::string dir = folder / "run/1";
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t holder = ::fork();
  if (holder == 0) {
    try {
      Workdir mine(dir);
      mine.claim();
      if (::write(ready[1], "x", 1) == 1) ::pause();
    } catch (...) {
    }
    ::_exit(99);
  }
  char byte = 0;
  REQUIRE(::read(ready[0], &byte, 1) == 1);

  char host[256] = {};
  ::gethostname(host, sizeof(host) - 1);
  const double begin = now();
  Workdir second(dir);
  CHECK(error_of([&] { second.claim(); }) ==
        fmt::format("{}: error: the workdir is in use by process {} on host {}; wait for it or "
                    "choose another --workdir",
                    dir, holder, host));
  CHECK(error_of([&] { second.claim(0, "--output"); }).ends_with("or choose another --output"));
  CHECK(now() - begin < kWatchdog);  // it does not wait for the other run

  ::kill(holder, SIGKILL);
  ::waitpid(holder, nullptr, 0);
  second.claim();
  CHECK(read_file(second.lock()) ==
        fmt::format("{} {} {} 0000000000\n", ::getpid(), host, boot_id()));
  CHECK(error_of([&] { Workdir(dir).claim(); }) != "");
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_CASE("workdir: claim takes over a lock file with nonsense, and refuses what is not a file") {
  const MemoryFolder folder;
  std::ofstream(folder / ".lock") << std::string(5000, '\xff');
  {
    Workdir workdir(folder.path());
    workdir.claim();
    CHECK(read_file(workdir.lock()).size() < 300);
  }
  fs::remove(folder / ".lock");
  fs::create_symlink(folder / "no/such/folder", folder / ".lock");
  CHECK(error_of([&] { Workdir(folder.path()).claim(); }) ==
        folder / ".lock: error: cannot lock: it keeps disappearing");
  fs::remove(folder / ".lock");
  fs::create_directory(folder / ".lock");
  CHECK(error_of([&] { Workdir(folder.path()).claim(); }) ==
        folder / ".lock: error: cannot open: Is a directory");
}

TEST_CASE("workdir: the holder of a lock is the same text for all who see the file") {
  const Variable beat("BVTRAIN_LOCK_BEAT", "0.01");
  const MemoryFolder folder;
  const std::string lock = folder / ".lock";
  CHECK(WorkdirLock::holder(lock).empty());
  {
    Workdir workdir(folder.path());
    workdir.claim();
    const std::string holder = WorkdirLock::holder(lock);
    CHECK(holder == fmt::format("{} {} {}", ::getpid(), host_name(), boot_id()));
    const std::string line = read_file(lock);
    REQUIRE(wait_until([&] { return read_file(lock) != line; }));
    CHECK(WorkdirLock::holder(lock) == holder);
    std::ofstream(folder / "other") << "123 there other-boot 0000000001\n";
    CHECK(WorkdirLock::holder(folder / "other") != holder);
  }
  CHECK(WorkdirLock::holder(lock).empty());
}

TEST_CASE("workdir: claim waits for the lock as long as it is told") {
  const TempFolder folder;
  auto first = std::make_unique<Workdir>(folder.path());
  first->claim();
  CHECK(error_of([&] { Workdir(folder.path()).claim(0.2); }) != "");
  std::thread release([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    first.reset();
  });
  Workdir second(folder.path());
  second.claim(60);
  release.join();
}

TEST_CASE(
    "workdir: a lock that was not released is taken over with a line; a released one is empty") {
  const MemoryFolder folder;
  const std::string lock = folder / ".lock";
  {
    Workdir workdir(folder.path());
    workdir.claim();
  }
  CHECK(read_file(lock).empty());
  const auto claimed = [&] {
    return logged([&] {
      Workdir workdir(folder.path());
      workdir.claim();
    });
  };
  CHECK(claimed() == "");
  std::ofstream(lock) << "123 here " << boot_id() << " 0000000007\n";
  CHECK(
      contains(claimed(), fmt::format("Takes over {} from process 123 on host here, which did not "
                                      "release it",
                                      folder.path())));
}

TEST_CASE("workdir: where locks hold per host, the line of another machine is watched") {
  const MemoryFolder folder;
  const std::string lock = folder / ".lock";
  const auto write_line = [&](int counter) {
    std::fstream file(lock, counter == 1 ? std::ios::out : std::ios::in | std::ios::out);
    file << fmt::format("123 there other-boot {:010}\n", counter) << std::flush;
    // The clock of the file server may be far behind.
    fs::last_write_time(lock, fs::file_time_type::clock::now() - std::chrono::hours(2));
  };
  write_line(1);
  {
    const Variable beat("BVTRAIN_LOCK_BEAT", "2");  // the other thread may be held up
    std::jthread other([&](const std::stop_token& stop) {
      for (int counter = 2; !stop.stop_requested(); ++counter) {
        write_line(counter);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
    });
    CHECK(error_of([&] { Workdir(folder.path()).claim(); }) ==
          folder.path() +
              ": error: the workdir is in use by process 123 on host there; wait for it "
              "or choose another --workdir");
  }
  const Variable beat("BVTRAIN_LOCK_BEAT", "0.2");
  write_line(1);
  const double begin = now();
  Workdir workdir(folder.path());
  const std::string log = logged([&] { workdir.claim(); });
  CHECK(now() - begin >= 0.6);
  CHECK(contains(log,
                 "was in use by process 123 on host there: waiting 1 s to see whether it "
                 "still runs"));
  CHECK(contains(log, "Takes over"));
}

TEST_CASE("workdir: a holder that finds the line of another process ends with code 2") {
  if (kThreadSanitized) return;
  const Variable beat("BVTRAIN_LOCK_BEAT", "0.05");
  const MemoryFolder folder;
  const std::string lock = folder / ".lock";
  const pid_t holder = ::fork();
  if (holder == 0) {
    try {
      Workdir mine(folder.path());
      mine.claim();
      ::pause();
    } catch (...) {
    }
    ::_exit(99);
  }
  const auto counter = [&] {
    const std::string line = fs::exists(lock) ? read_file(lock) : "";
    return line.ends_with("\n") ? std::stoi(line.substr(line.rfind(' '))) : 0;
  };
  REQUIRE(wait_until([&] { return counter() >= 3; }));
  CHECK(read_file(lock).starts_with(fmt::format("{} ", holder)));
  std::ofstream(folder / "new") << "123 there other-boot 0000000001\n";
  fs::rename(folder / "new", lock);
  int status = 0;
  CHECK(::waitpid(holder, &status, 0) == holder);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == static_cast<int>(Exit::usage));
  CHECK(read_file(lock) == "123 there other-boot 0000000001\n");
}

}  // namespace bv::test
