// scripts/cron.sh: when it starts bvtrain, and when it prints something, so that cron sends mail.
// bvtrain is a script here that ends with a given code.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "lib/ckpt/workdir/workdir.h"
#include "test/support/binary.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

struct Cron {
  TempFolder dir;
  std::string workdir = dir / "run";

  Cron() { dir.make("run"); }
  Process start(const std::string& bvtrain, const std::vector<std::string>& more = {},
                Environment environment = {}) const {
    const std::string program = dir.write("bvtrain", "#!/bin/bash\n" + bvtrain + "\n");
    ::chmod(program.c_str(), 0755);
    std::vector<std::string> args = {
        "bash", source_file("scripts/cron.sh"), "--config", dir / "c.yaml", "--workdir", workdir};
    args.insert(args.end(), more.begin(), more.end());
    environment.emplace_back("BVTRAIN_BINARY", program);
    return Process("/bin/bash", args, environment);
  }
  // Returns what cron would send by mail. The code is also that of the script.
  std::string mail(const std::string& bvtrain, int code) const {
    const Finished end = start(bvtrain).wait();
    CHECK(end.code == code);
    return end.out + end.err;
  }
  int starts() const {
    return static_cast<int>(count(read_text(workdir + "/cron.log"), " start\n"));
  }
};

}  // namespace

TEST_CASE("cron.sh sends mail once, and only if somebody must act") {
  const Cron cron;
  for (const char* fine : {"exit 0", "exit 75", "exit 130", "exit 143"})
    CHECK(cron.mail(fine, 0).empty());
  CHECK(cron.starts() == 4);
  const std::string mail = cron.mail("echo the reason; exit 4", 4);
  CHECK(mail.starts_with("bvtrain ended with code 4 and will not be started again until " +
                         cron.workdir + "/FAILED is removed:\n"));
  CHECK(contains(mail, "\nthe reason\n"));
  CHECK(cron.mail("exit 0", 0).empty());
  CHECK(cron.starts() == 5);  // not started again
  std::filesystem::remove(cron.workdir + "/FAILED");
  CHECK(cron.mail("exit 0", 0).empty());
  CHECK(cron.starts() == 6);
}

TEST_CASE("cron.sh tells if a failure that may pass happens again and again") {
  // Another process of the run fails, the run is killed, the disk of the data is not mounted, its
  // time is too short.
  for (const int code : {7, 137, 2, 75}) {
    const Cron cron;
    cron.dir.write("run/run.json", "{}");  // the run has begun
    const std::string fail = fmt::format("exit {}", code);
    for (int i = 0; i < 4; ++i) CHECK(cron.mail(fail, 0).empty());
    CHECK(cron.mail("exit 0", 0).empty());  // it has recovered
    // Failures with a checkpoint between them do not add up.
    const std::string saves =
        "mkdir -p " + cron.workdir + "/ckpt; date +%N >" + cron.workdir + "/ckpt/LAST; ";
    for (int i = 0; i < 6; ++i) CHECK(cron.mail(saves + fail, 0).empty());
    const int counted = code == 75 ? 0 : 1;  // 75 with a checkpoint is no failure
    for (int i = counted; i < 4; ++i) CHECK(cron.mail(fail, 0).empty());
    CHECK(contains(cron.mail(fail, code), fmt::format("bvtrain ended with code {}", code)));
  }
  CHECK(contains(Cron().mail("exit 2", 2), "bvtrain ended with code 2"));  // a new run
}

TEST_CASE("cron.sh starts a finished run only if its arguments or its config have changed") {
  const Cron cron;
  cron.dir.write("c.yaml", "\"include\" : \"base.yaml\"  # as bvtrain reads it\n");
  cron.dir.write("base.yaml", "total_steps: 5\n");
  const std::string finish = "touch " + cron.workdir + "/DONE";
  for (int i = 0; i < 2; ++i) CHECK(cron.mail(finish, 0).empty());
  CHECK(cron.starts() == 1);
  cron.dir.write("base.yaml", "total_steps: 9\n");
  for (int i = 0; i < 2; ++i) CHECK(cron.mail(finish, 0).empty());
  CHECK(cron.starts() == 2);
  for (int i = 0; i < 2; ++i) CHECK(cron.start(finish, {"--set", "lr=1"}).wait().code == 0);
  CHECK(cron.starts() == 3);
  std::filesystem::remove(cron.workdir + "/DONE");  // started by hand for more steps
  CHECK(cron.start(finish, {"--set", "lr=1"}).wait().code == 0);
  CHECK(cron.starts() == 4);
}

TEST_CASE("cron.sh sees that an included file has changed whose name holds a variable") {
  int steps = 0;
  for (const char* name : {"${CRON_CONFIGS}/${CRON_BASE:-base}.yaml", "'${CRON_CONFIGS}/base.yaml'",
                           "${CRON_NONE:-.}/base.yaml  # of all runs", "${CRON_BASE:-base}.yaml"}) {
    const Cron cron;
    cron.dir.write("c.yaml", fmt::format("include: {}\n", name));
    const auto call = [&] {
      const Finished end = cron.start("touch " + cron.workdir + "/DONE", {},
                                      {{"CRON_CONFIGS", cron.dir / "."}, {"CRON_BASE", ""}})
                               .wait();
      CHECK(end.code == 0);
      CHECK((end.out + end.err).empty());
      return cron.starts();
    };
    INFO(name);
    cron.dir.write("base.yaml", fmt::format("total_steps: {}\n", ++steps));
    call();
    CHECK(call() == 1);
    cron.dir.write("base.yaml", fmt::format("total_steps: {}\n", ++steps));
    call();
    CHECK(call() == 2);
  }
}

TEST_CASE("cron.sh makes no workdir, and tells in every call that it cannot write there") {
  const Cron cron;
  std::filesystem::remove(cron.workdir);
  for (int i = 0; i < 2; ++i) {
    CHECK(cron.mail("exit 0", 2) ==
          "cron.sh: error: no folder " + cron.workdir + ": make it once, or mount its disk\n");
  }
  CHECK_FALSE(exists(cron.workdir));
  cron.dir.make("run/.cron.lock");  // a folder cannot be written
  for (int i = 0; i < 2; ++i) CHECK(contains(cron.mail("exit 0", 5), "/run/.cron.lock: "));
  std::filesystem::remove(cron.dir / "run/.cron.lock");
  cron.dir.make("run/cron.log");
  CHECK(contains(cron.mail("exit 0", 5), "/run/cron.log: "));
  CHECK_FALSE(exists(cron.workdir + "/FAILED"));
  std::filesystem::remove(cron.workdir + "/cron.log");
  cron.dir.make("run/.lock");  // no lock of bvtrain, which says so itself
  CHECK(contains(cron.mail("exit 2", 2), "bvtrain ended with code 2"));
  CHECK(cron.starts() == 1);
}

TEST_CASE("cron.sh leaves a run alone that still goes, whoever has started it") {
  const Cron cron;
  {
    Workdir workdir(cron.workdir);  // as a run by hand
    workdir.claim();
    CHECK(cron.mail("exit 2", 0).empty());
  }
  CHECK(cron.starts() == 0);

  // A run from cron.sh continues if only the script is killed.
  REQUIRE(::mkfifo((cron.dir / "fifo").c_str(), 0600) == 0);
  Process script =
      cron.start("touch " + (cron.dir / "began") + "; read line <" + (cron.dir / "fifo"));
  REQUIRE(wait_for_file(cron.dir / "began"));
  script.kill(SIGKILL);
  script.wait();
  CHECK(cron.mail("exit 2", 0).empty());
  CHECK(cron.starts() == 1);
  const int fifo = ::open((cron.dir / "fifo").c_str(), O_RDWR);
  REQUIRE(::write(fifo, "\n", 1) == 1);
  REQUIRE(wait_until([&] { return processes_with(cron.dir / "bvtrain").empty(); }));
  ::close(fifo);
  CHECK(cron.mail("exit 0", 0).empty());
  CHECK(cron.starts() == 2);
}

TEST_CASE("cron.sh leaves a run alone that is started by hand while bvtrain opens its data") {
  const Cron cron;
  REQUIRE(::mkfifo((cron.dir / "fifo").c_str(), 0600) == 0);
  Process script = cron.start("touch " + (cron.dir / "began") + "; read line <" +
                              (cron.dir / "fifo") + "; exit 2");
  REQUIRE(wait_for_file(cron.dir / "began"));
  Workdir workdir(cron.workdir);
  workdir.claim();
  const int fifo = ::open((cron.dir / "fifo").c_str(), O_RDWR);
  REQUIRE(::write(fifo, "\n", 1) == 1);
  const Finished end = script.wait();
  ::close(fifo);
  CHECK(end.code == 0);
  CHECK((end.out + end.err).empty());
  CHECK_FALSE(exists(cron.workdir + "/FAILED"));
}

TEST_CASE("cron.sh tells of a process that the run has left behind") {
  const Cron cron;
  REQUIRE(::mkfifo((cron.dir / "fifo").c_str(), 0600) == 0);
  const std::string mail = cron.mail("(read line <" + (cron.dir / "fifo") + ") & exit 7", 0);
  CHECK(contains(mail, "a process of the run did not end. Nothing is started until it is gone"));
  const int fifo = ::open((cron.dir / "fifo").c_str(), O_RDWR);
  REQUIRE(::write(fifo, "\n", 1) == 1);
  REQUIRE(wait_until([&] { return processes_with(cron.dir / "bvtrain").empty(); }));
  ::close(fifo);
}

TEST_CASE("cron.sh refuses --cleanup and its variable") {
  const Cron cron;
  for (const char* option : {"--cleanup", "--cleanup=true"}) {
    const Finished end = cron.start("exit 0", {option}).wait();
    CHECK(end.code == 2);
    CHECK(end.err ==
          "cron.sh: error: --cleanup would remove the finished run, and the next call would train "
          "again\n");
  }
  const Finished end = cron.start("exit 0", {}, {{"BVTRAIN_CLEANUP", "true"}}).wait();
  CHECK(end.code == 2);
  CHECK(end.err ==
        "cron.sh: error: $BVTRAIN_CLEANUP would remove the finished run, and the next call would "
        "train again\n");
  CHECK(cron.starts() == 0);
  CHECK(cron.start("exit 0", {}, {{"BVTRAIN_CLEANUP", "false"}}).wait().code == 0);
  CHECK(cron.starts() == 1);
}

}  // namespace bv::test
