// Heartbeats: their text form, the processes that send them, and the step times in them.
#include "lib/distributed/watch/heartbeat.h"

#include <catch2/catch.hpp>

#include "lib/distributed/watch/step_clock.h"

namespace bv::test {
namespace {

TEST_CASE("heartbeats are read back, and nonsense is not a heartbeat") {
  Heartbeat heartbeat;
  heartbeat.counter = 9;
  heartbeat.step = 41;
  heartbeat.begun = 17;
  heartbeat.what = "a name\twith\na line";
  heartbeat.host = "n3";
  heartbeat.pid = 1003;
  heartbeat.phase = "checkpoint";
  heartbeat.step_time = 0.25;
  heartbeat.machine = "boot ns";
  heartbeat.started = 123456789012345;
  const auto back = Heartbeat::parse(heartbeat.text());
  REQUIRE(back);
  CHECK(back->what == "a name with a line");
  CHECK(back->counter == 9);
  CHECK(back->begun == 17);
  CHECK(back->step_time == 0.25);
  CHECK(back->started == 123456789012345);
  CHECK(back->phase == "checkpoint");
  for (const std::string bad :
       {"", "x", "1\t2\t3", "1\t2\tx\t\t\t0\t0\th\t1\tm\t1", "1\t2\t3\t\t\t0\t0\th\t1\tm\t1\tmore"})
    CHECK_FALSE(Heartbeat::parse(bad));
  CHECK_FALSE(Heartbeat::parse(std::string(5000, '1')));
}

TEST_CASE("this process is alive, and a pid that is used again is another process") {
  const Heartbeat mine = heartbeat_of_this_process();
  CHECK_FALSE(mine.machine.empty());
  CHECK_FALSE(known_dead(mine, mine));
  Heartbeat other = mine;
  other.started += 1;
  CHECK(known_dead(other, mine));
  other.machine = "elsewhere";  // processes of other machines cannot be checked
  CHECK_FALSE(known_dead(other, mine));
  other = mine;
  other.pid = 1 << 30;
  CHECK(known_dead(other, mine));
}

TEST_CASE("the step clock leaves out waiting and pauses") {
  StepClock clock;
  double now = 0;
  for (int i = 0; i < 30; ++i) {
    CHECK((clock.step_time() > 0) == (i > 3));
    CHECK((clock.compute_time() > 0) == (i > 20));
    now += 1;
    clock.note_wait(0.75);
    clock.note_step(now);
  }
  CHECK(clock.step_time() == Approx(1));
  CHECK(clock.compute_time() == Approx(0.25));
  clock.skip();  // a checkpoint
  clock.note_step(now + 100);
  for (int i = 0; i < 30; ++i) clock.note_step(now + 102 + 2 * i);
  CHECK(clock.step_time() == Approx(2));
}

}  // namespace
}  // namespace bv::test
