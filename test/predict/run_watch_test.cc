// When bvtrain eval --follow expects no more checkpoints.
#include "lib/predict/run_watch.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "test/support/clock.h"
#include "test/support/error.h"
#include "test/support/folder.h"
#include "test/support/variable.h"

namespace bv::test {

namespace fs = std::filesystem;

TEST_CASE("how a run ended before does not count while a process holds its lock") {
  const TempFolder dir;
  const Workdir run(dir / "run");
  RunWatch watch(run, 0);
  const auto fault = [&] { return error_of([&] { watch.check_goes_on(); }, Exit::peer); };
  dir.write("run/DONE", "20\n");
  CHECK(watch.finished());
  {
    Workdir continued(run.dir());
    continued.claim();
    CHECK_FALSE(watch.finished());
    fs::remove(run.done());
    dir.write("run/result.json", R"({"exit_code": 4})");
    CHECK(fault().empty());
  }
  CHECK(fault() == run.dir() + ": error: the run has failed with code 4");
  dir.write("run/DONE", "60\n");
  CHECK(watch.finished());
}

TEST_CASE("a run that was killed counts as failed, one that was stopped does not") {
  const Variable beat("BVTRAIN_LOCK_BEAT", "0.1");
  const TempFolder dir;
  const Workdir run(dir / "run");
  RunWatch watch(run, 0);
  const auto fault = [&] { return error_of([&] { watch.check_goes_on(); }, Exit::peer); };
  CHECK(fault().empty());  // it has not begun
  const std::string killed =
      run.dir() + ": error: the run has not finished, but no process has worked on it for 0 s";
  dir.write("run/config.yaml", "lr: 0.1\n");
  CHECK(fault() == killed);
  dir.write("run/.lock", "123 there other-boot 0000000007\n");
  CHECK(fault().empty());  // another host may have written the line just now
  CHECK(wait_until([&] { return fault() == killed; }));
  dir.write("run/.lock", "123 there other-boot 0000000008\n");
  CHECK(fault().empty());
  fs::remove(run.config());
  dir.write("run/.lock", "");  // it failed before its first step
  CHECK(fault() == killed);
  for (const char* code : {"75", "130", "143"}) {
    INFO(code);
    dir.write("run/result.json", fmt::format(R"({{"exit_code": {}}})", code));
    CHECK(fault().empty());
  }
  fs::remove(run.result());
  RunWatch patient(run, 600);
  CHECK(error_of([&] { patient.check_goes_on(); }).empty());
  dir.write("run/DONE", "20\n");
  CHECK(fault().empty());
}

}  // namespace bv::test
