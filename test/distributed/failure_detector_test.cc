#include "lib/distributed/watch/failure_detector.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>

namespace bv::test {
namespace {

Heartbeat heartbeat_of(int rank, int64_t counter, int64_t begun,
                       const std::string& what = "gradients") {
  Heartbeat heartbeat;
  heartbeat.counter = counter;
  heartbeat.step = 41;
  heartbeat.begun = begun;
  heartbeat.what = what;
  heartbeat.host = "n" + std::to_string(rank);
  heartbeat.pid = 1000 + rank;
  return heartbeat;
}

// Three ranks, observed by rank 0. `dead`: the ranks whose processes are gone.
struct Scene {
  int dead = -1;
  Heartbeat mine = heartbeat_of(0, 1, 10);
  FailureDetector detector{0, 3, Timeouts{}, [this](const Heartbeat& heartbeat) {
                             return heartbeat.pid == 1000 + dead;
                           }};
  int64_t counter = 0;

  // Both other ranks send a heartbeat each second up to `until`.
  void lively(double from, double until, int64_t begun1, int64_t begun2) {
    for (double now = from; now <= until; now += 1) {
      detector.record(1, heartbeat_of(1, ++counter, begun1), now);
      detector.record(2, heartbeat_of(2, counter, begun2), now);
    }
  }
  std::string failure(double waiting, double now,
                      FailureDetector::WaitFor what = FailureDetector::WaitFor::collective) {
    const auto found = detector.find_failure(mine, waiting, now, what);
    return found ? detector.message(*found, mine) : "";
  }
};

TEST_CASE("a rank that is silent for 20 s is named with the collective it never joined") {
  Scene scene;
  scene.detector.note_begun(11, "gradients 3");
  scene.mine.begun = 12;
  scene.lively(0, 100, 12, 10);
  for (double now = 101; now < 120; now += 1) {
    scene.detector.record(1, heartbeat_of(1, 200 + static_cast<int64_t>(now), 12), now);
    CHECK(scene.failure(100, now).empty());
  }
  scene.detector.record(1, heartbeat_of(1, 500, 12), 120.5);
  CHECK(scene.failure(100, 120.5) ==
        "[distributed] rank 2 (n2, pid 1002) sent no heartbeat for 20.5 s; its last step was 41; "
        "it never "
        "joined collective 11 (gradients 3)");
}

TEST_CASE(
    "a heartbeat that is older than what the reader has seen does not misreport the silent rank "
    "wrongly") {
  Scene scene;
  scene.lively(0, 1, 10, 10);
  scene.detector.record(1, heartbeat_of(1, 100, 10), 25);
  for (int64_t number = 11; number <= 16; ++number)
    scene.detector.note_begun(number, "gradients " + std::to_string(number % 2));
  scene.detector.note_joined(15);  // two a step: step 41 ended after 11, 42 after 13, 43 after 15
  scene.detector.note_step(41, 11);
  scene.detector.note_step(42, 13);
  scene.detector.note_step(43, 15);
  scene.mine.begun = 16;
  CHECK(scene.failure(-1, 25) ==
        "[distributed] rank 2 (n2, pid 1002) sent no heartbeat for 24 s; its last step was 43; it "
        "never "
        "joined "
        "collective 16 (gradients 0)");
}

TEST_CASE("of several silent ranks the one that has been silent longest is named") {
  Scene scene;
  scene.detector.record(2, heartbeat_of(2, 1, 10), 5);
  scene.detector.record(1, heartbeat_of(1, 1, 10), 3);
  CHECK(scene.detector.find_failure(scene.mine, -1, 40)->rank == 1);
}

TEST_CASE("no rank is reported because the reader itself was stopped") {
  Scene scene;
  scene.lively(0, 10, 10, 10);
  scene.detector.reset_timers(100);
  CHECK(scene.failure(-1, 100).empty());
  CHECK(scene.failure(-1, 119).empty());
  CHECK_FALSE(scene.failure(-1, 121).empty());
}

TEST_CASE("a dead process is noticed after a second") {
  Scene scene;
  scene.lively(0, 10, 10, 10);
  scene.dead = 1;
  CHECK(scene.failure(-1, 10.1).empty());
  CHECK(scene.failure(-1, 10.9).empty());
  CHECK(scene.failure(-1, 11.2) ==
        "[distributed] rank 1 (n1, pid 1001) died; its last step was 41; it never joined "
        "collective 11, "
        "which no rank had started yet");
}

TEST_CASE("a rank that left after the last barrier is not reported") {
  Scene scene;
  scene.lively(0, 10, 10, 10);
  Heartbeat ending = heartbeat_of(1, 100, 11);
  ending.phase = kEnding;
  scene.detector.record(1, ending, 11);
  scene.dead = 1;
  // This rank has not reached the barrier yet, so the other one died too early.
  CHECK(scene.failure(-1, 11).empty());
  CHECK_FALSE(scene.failure(-1, 13).empty());
  scene.mine.phase = kEnding;
  CHECK(scene.failure(-1, 14).empty());
  // A rank that becomes silent within the barrier has died there.
  scene.detector.record(2, heartbeat_of(2, 900, 11), 32);
  CHECK_FALSE(scene.failure(11, 32).empty());
  Heartbeat ended = ending;
  ended.phase = kEnded;
  scene.detector.record(1, ended, 32);
  CHECK(scene.failure(11, 50).empty());
}

TEST_CASE("the step time-out counts only while others wait in a collective") {
  Scene scene;
  scene.mine.step_time = 1;                           // hence 60 s
  CHECK(scene.detector.collective_timeout() == 600);  // before any step is known: the start-up's
  scene.lively(0, 200, 10, 10);
  CHECK(scene.failure(-1, 200).empty());  // nobody waits
  CHECK(scene.detector.collective_timeout() == 60);
  scene.mine.begun = 11;
  scene.lively(201, 260, 11, 10);
  CHECK(scene.failure(201, 260).empty());
  for (double now = 261; now <= 325; now += 1) {
    scene.lively(now, now, 11, 10);
    const std::string line = scene.failure(201, now);
    if (now <= 320) CHECK(line.empty());
    if (now > 321)
      CHECK(line.starts_with(
          "[distributed] rank 2 (n2, pid 1002) is alive but kept the others waiting "
          "for 6"));
  }
}

TEST_CASE("long steps get a longer time-out, and a long phase gets the time-out of phases") {
  Scene scene;
  scene.mine.step_time = 30;
  scene.lively(0, 1, 10, 10);
  CHECK(scene.failure(-1, 1).empty());
  CHECK(scene.detector.collective_timeout() == 600);
  scene.mine.step_time = 30;
  scene.mine.begun = 11;
  Heartbeat writing = heartbeat_of(2, 1, 10);
  writing.phase = "checkpoint";
  for (double now = 2; now < 3700; now += 1) {
    scene.detector.record(1, heartbeat_of(1, static_cast<int64_t>(now), 11), now);
    writing.counter = static_cast<int64_t>(now);
    scene.detector.record(2, writing, now);
    const std::string line = scene.failure(2, now);
    if (now < 3600) REQUIRE(line.empty());
    if (now > 3610)
      REQUIRE(line.find("is alive in 'checkpoint' but kept the others waiting for 36") !=
              std::string::npos);
  }
}

TEST_CASE("after a long phase the step time-out starts again") {
  Scene scene;
  scene.mine.step_time = 1;
  scene.mine.begun = 11;
  Heartbeat other = heartbeat_of(2, 1, 10);
  other.phase = "checkpoint";
  for (double now = 2; now <= 1000; now += 1) {
    other.counter = static_cast<int64_t>(now);
    if (now == 900) other.phase = "";
    scene.detector.record(1, heartbeat_of(1, static_cast<int64_t>(now), 11), now);
    scene.detector.record(2, other, now);
    const bool failure = !scene.failure(2, now).empty();
    if (now <= 960) REQUIRE_FALSE(failure);
    if (now > 962) REQUIRE(failure);
  }
}

TEST_CASE("a collective that all joined and that does not end is blamed on the network") {
  Scene scene;
  scene.mine.step_time = 1;
  scene.mine.what = "gradients";
  CHECK(scene.failure(-1, 0).empty());
  scene.lively(0, 100, 10, 10);
  CHECK(scene.failure(40, 100).empty());
  CHECK(scene.failure(30, 100) ==
        "[distributed] collective 10 (gradients) was joined by all ranks but did not end in 70 s: "
        "does the "
        "network lose packets?");
}

TEST_CASE("if the devices of all ranks do not finish, the error does not blame the network") {
  Scene scene;
  scene.mine.step_time = 1;
  CHECK(scene.failure(-1, 0).empty());
  scene.lively(0, 100, 10, 10);
  CHECK(scene.failure(40, 100, FailureDetector::WaitFor::device).empty());
  CHECK(scene.failure(30, 100, FailureDetector::WaitFor::device) ==
        "[distributed] no rank has made progress for 70 s, since collective 10 (gradients), and "
        "this one waits for its device: does a device or a collective hang?");
}

TEST_CASE("among many ranks only one that sees all of them reports that all joined") {
  // 100 ranks: rank 1 watches the 16 ranks after it. One that it does not watch blocks all others.
  FailureDetector detector(1, 100, Timeouts{}, [](const Heartbeat&) { return false; });
  Heartbeat mine = heartbeat_of(1, 1, 10);
  mine.step_time = 1;
  const auto see = [&](int rank, int64_t counter, double now) {
    detector.record(rank, heartbeat_of(rank, counter, 10), now);
  };
  for (int64_t now = 0; now <= 1000; ++now) {
    for (int rank = 2; rank <= 17; ++rank) see(rank, now, static_cast<double>(now));
    REQUIRE_FALSE(detector.find_failure(mine, 0, static_cast<double>(now)));
  }
  // Rank 0 watches all.
  for (const double now : {1000.0, 1065.0}) {
    for (int rank = 0; rank < 100; ++rank)
      if (rank != 1) see(rank, static_cast<int64_t>(now), now);
  }
  const auto lost = detector.find_failure(mine, 0, 1065);
  REQUIRE(lost);
  CHECK(lost->rank == -1);
}

TEST_CASE("a collective that all have joined is not late because the last one came late") {
  Scene scene;
  scene.mine.step_time = 1;
  scene.mine.begun = 11;
  Heartbeat writing = heartbeat_of(2, 1, 10);
  writing.phase = "checkpoint";
  for (double now = 0; now <= 3000; now += 1) {
    writing.counter = static_cast<int64_t>(now);
    if (now > 1000) writing.begun = 11, writing.phase = "";  // it has joined
    scene.detector.record(1, heartbeat_of(1, static_cast<int64_t>(now), 11), now);
    scene.detector.record(2, writing, now);
    const std::string line = scene.failure(0, now);
    if (now <= 1060) REQUIRE(line.empty());
    if (now >= 1067) REQUIRE(line.find("did not end in 6") != std::string::npos);
    if (now >= 1070) break;
  }
  // Nor is it late because the reader itself was stopped in the meantime.
  scene.detector.reset_timers(5000);
  CHECK(scene.failure(0, 5001).empty());
}

TEST_CASE("in a long phase a collective may take as long as the phase") {
  for (const bool own : {true, false}) {
    Scene scene;
    scene.mine.step_time = 1;
    Heartbeat other = heartbeat_of(2, 1, 10);
    (own ? scene.mine : other).phase = "evaluation";
    for (double now = 0; now <= 3700; now += 1) {
      other.counter = static_cast<int64_t>(now);
      scene.detector.record(1, heartbeat_of(1, static_cast<int64_t>(now), 10), now);
      scene.detector.record(2, other, now);
      const std::string line = scene.failure(0, now);
      if (now <= 3600) REQUIRE(line.empty());
      if (now > 3605) REQUIRE(line.find("does the network lose packets?") != std::string::npos);
    }
  }
}

TEST_CASE("ranks that block without waiting for each other end after the time-out of phases") {
  for (const std::string phase : {"", "evaluation", "start"}) {
    INFO(phase);
    Scene scene;
    scene.mine.step_time = 1;
    scene.mine.phase = phase;
    // They move on until 100 s. All that changes last is the step of rank 2.
    for (double now = 0; now <= 3800; now += 1) {
      Heartbeat other = heartbeat_of(2, static_cast<int64_t>(now), 10);
      if (now >= 100) other.step = 42;
      scene.detector.record(1, heartbeat_of(1, static_cast<int64_t>(now), 10), now);
      scene.detector.record(2, other, now);
      const std::string line = scene.failure(-1, now);
      if (now <= 3700) REQUIRE(line.empty());
      if (now > 3705)
        REQUIRE(line == fmt::format("[distributed] no rank has made progress for {:.0f} s, since "
                                    "collective 10 (gradients): does a device hang?",
                                    now - 100));
    }
    scene.detector.reset_timers(5000);  // the reader was stopped, and perhaps all ranks
    CHECK(scene.failure(-1, 5001).empty());
  }
  // Its own progress counts, too.
  Scene scene;
  for (double now = 0; now <= 8000; now += 1) {
    scene.lively(now, now, 10, 10);
    if (now == 3000 || now == 6000) ++scene.mine.step;
    REQUIRE(scene.failure(-1, now).empty());
  }
}

TEST_CASE("ranks that all look through their data may take hours") {
  Scene scene;
  scene.mine.phase = kIndexing;
  Heartbeat other = heartbeat_of(1, 1, 10);
  other.phase = kIndexing;
  for (double now = 0; now <= 20000; now += 1) {
    other.counter = static_cast<int64_t>(now);
    scene.detector.record(1, other, now);
    scene.detector.record(2, other, now);
    REQUIRE(scene.failure(-1, now).empty());
  }
}

TEST_CASE("the start's time-out does not fire while a rank reads what the run starts from") {
  Scene scene;  // no step is known
  scene.mine.begun = 11;
  Heartbeat reading = heartbeat_of(2, 1, 10);
  reading.phase = "start";
  for (double now = 0; now <= 3700; now += 1) {
    reading.counter = static_cast<int64_t>(now);
    scene.detector.record(1, heartbeat_of(1, static_cast<int64_t>(now), 11), now);
    scene.detector.record(2, reading, now);
    const std::string line = scene.failure(0, now);
    if (now <= 3600) REQUIRE(line.empty());
    if (now > 3601)
      REQUIRE(line.find("rank 2 (n2, pid 1002) is alive in 'start' but") != std::string::npos);
  }
}

TEST_CASE("the last barrier does not count as a long phase") {
  Scene scene;
  scene.mine.step_time = 1;
  scene.mine.phase = kEnding;
  Heartbeat ending = heartbeat_of(1, 1, 10);
  ending.phase = kEnding;
  std::string line;
  for (double now = 0; now <= 70 && line.empty(); now += 1) {
    ending.counter = static_cast<int64_t>(now);
    scene.detector.record(1, ending, now);
    scene.detector.record(2, ending, now);
    line = scene.failure(0, now);
  }
  CHECK(line.find("did not end in 65 s") != std::string::npos);
}

TEST_CASE("a rank that is slow in three heartbeats in a row is reported once with its ratio") {
  Scene scene;
  int64_t counter = 0;
  const auto see = [&](int rank, double own) {
    Heartbeat heartbeat = heartbeat_of(rank, ++counter, 10);
    heartbeat.compute_time = own;
    scene.detector.record(rank, heartbeat, 1);
  };
  scene.mine.compute_time = 0.1;
  scene.detector.record(0, scene.mine, 1);
  see(1, 0.11);
  CHECK_FALSE(scene.detector.find_slow_rank());  // rank 2 has measured nothing yet
  // Not slow enough; then slow twice, with a better measurement in between.
  for (const double own : {0.19, 0.19, 0.19, 0.33, 0.33, 0.12, 0.33, 0.33}) {
    see(2, own);
    CHECK_FALSE(scene.detector.find_slow_rank());
    CHECK_FALSE(scene.detector.find_slow_rank());  // the same heartbeat counts once
  }
  see(2, 0.33);
  const auto slow = scene.detector.find_slow_rank();
  REQUIRE(slow);
  CHECK(slow->rank == 2);
  CHECK(slow->ratio == Approx(3));
  for (int i = 0; i < 5; ++i) {
    see(2, 0.33);
    CHECK_FALSE(scene.detector.find_slow_rank());
  }
}

TEST_CASE("a rank is not slow because of a few milliseconds") {
  Scene scene;
  scene.mine.compute_time = 0.009;
  for (int64_t counter = 1; counter < 9; ++counter) {
    for (const int rank : {1, 2}) {
      Heartbeat heartbeat = heartbeat_of(rank, counter, 10);
      heartbeat.compute_time = 0.003;
      scene.detector.record(rank, heartbeat, 1);
    }
    scene.mine.counter = counter;
    scene.detector.record(0, scene.mine, 1);
    CHECK_FALSE(scene.detector.find_slow_rank());
  }
}

TEST_CASE("failure reports are read back, and nonsense is not a report") {
  const auto failure = FailureReport::parse(FailureReport{4, "was killed by signal 9"}.text());
  REQUIRE(failure);
  CHECK(failure->rank == 4);
  CHECK(failure->cause == "was killed by signal 9");
  const FailureReport own = FailureReport::of_end(4, 5, "no space left");
  CHECK(own.rank == 4);
  CHECK(own.cause == "ended with exit code 5: no space left");
  const FailureReport of_another = FailureReport::of_end(4, 7, "");
  CHECK(of_another.rank == -1);
  CHECK(of_another.cause == "rank 4 ended with exit code 7");
  CHECK_FALSE(FailureReport::parse("-"));
  CHECK_FALSE(FailureReport::parse("x\ty"));
}

}  // namespace
}  // namespace bv::test
