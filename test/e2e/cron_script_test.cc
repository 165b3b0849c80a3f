// scripts/cron.sh: when it starts bvtrain, and when it prints something, so that cron sends mail.
// bvtrain is a script here that ends with a given code.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "lib/ckpt/workdir.h"
#include "test/support/binary.h"
#include "test/support/text.h"

namespace bv::test {
namespace {

struct Cron {
  TempFolder dir;
  std::string workdir = dir / "run";

  Process start(const std::string& bvtrain, const std::vector<std::string>& more = {}) const {
    const std::string program = dir.write("bvtrain", "#!/bin/bash\n" + bvtrain + "\n");
    ::chmod(program.c_str(), 0755);
    std::vector<std::string> args = {
        "bash", source_file("scripts/cron.sh"), "--config", "c", "--workdir", workdir};
    args.insert(args.end(), more.begin(), more.end());
    return Process("/bin/bash", args, {{"BVTRAIN_BINARY", program}});
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

TEST_CASE("cron.sh tells if another process of the run fails again and again") {
  const Cron cron;
  for (int i = 0; i < 4; ++i) CHECK(cron.mail("exit 7", 0).empty());
  CHECK(cron.mail("exit 0", 0).empty());  // it has recovered
  for (int i = 0; i < 4; ++i) CHECK(cron.mail("exit 7", 0).empty());
  CHECK(contains(cron.mail("exit 7", 7), "bvtrain ended with code 7"));
}

TEST_CASE("cron.sh leaves a run alone that still goes, whoever has started it") {
  const Cron cron;
  cron.dir.make("run");
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

TEST_CASE("cron.sh refuses --cleanup") {
  const Cron cron;
  const Finished end = cron.start("exit 0", {"--cleanup"}).wait();
  CHECK(end.code == 2);
  CHECK(end.err ==
        "scripts/cron.sh: error: --cleanup would remove the finished run, and the next call would "
        "train again\n");
  CHECK(cron.starts() == 0);
}

}  // namespace bv::test
