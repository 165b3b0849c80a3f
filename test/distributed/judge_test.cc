#include "lib/distributed/watch/judge.h"

#include <catch2/catch.hpp>

#include "lib/distributed/watch/step_clock.h"

namespace bv {
namespace {

Heartbeat beat_of(int rank, int64_t counter, int64_t begun, const std::string& what = "gradients") {
  Heartbeat beat;
  beat.counter = counter;
  beat.step = 41;
  beat.begun = begun;
  beat.what = what;
  beat.host = "n" + std::to_string(rank);
  beat.pid = 1000 + rank;
  return beat;
}

// Three ranks as rank 0 sees them; `dead` says whose process is gone.
struct Scene {
  int dead = -1;
  Heartbeat mine = beat_of(0, 1, 10);
  Judge judge{0, 3, Bounds{}, [this](const Heartbeat& beat) { return beat.pid == 1000 + dead; }};
  int64_t counter = 0;

  // Both others send a beat each second up to `until`.
  void lively(double from, double until, int64_t begun1, int64_t begun2) {
    for (double now = from; now <= until; now += 1) {
      judge.see(1, beat_of(1, ++counter, begun1), now);
      judge.see(2, beat_of(2, counter, begun2), now);
    }
  }
  std::string accusation(double waiting, double now) {
    const auto found = judge.accuse(mine, waiting, now);
    return found ? judge.line(*found, mine) : "";
  }
};

TEST_CASE("a rank that is silent for 20 s is named with the collective it never joined") {
  Scene scene;
  scene.judge.begun(11, "gradients 3");
  scene.mine.begun = 12;
  scene.lively(0, 100, 12, 10);
  for (double now = 101; now < 120; now += 1) {
    scene.judge.see(1, beat_of(1, 200 + static_cast<int64_t>(now), 12), now);
    CHECK(scene.accusation(100, now).empty());
  }
  scene.judge.see(1, beat_of(1, 500, 12), 120.5);
  CHECK(
      scene.accusation(100, 120.5) ==
      "[distributed] rank 2 (n2, pid 1002) gave no sign for 20.5 s; its last step was 41; it never "
      "joined collective 11 (gradients 3)");
}

TEST_CASE("a beat that is older than what the reader saw does not wrong the silent rank") {
  Scene scene;
  scene.lively(0, 1, 10, 10);
  scene.judge.see(1, beat_of(1, 100, 10), 25);
  for (int64_t number = 11; number <= 16; ++number)
    scene.judge.begun(number, "gradients " + std::to_string(number % 2));
  scene.judge.joined(15);  // two a step: 41 ended behind 11, 42 behind 13, 43 behind 15
  scene.judge.stepped(41, 11);
  scene.judge.stepped(42, 13);
  scene.judge.stepped(43, 15);
  scene.mine.begun = 16;
  CHECK(scene.accusation(-1, 25) ==
        "[distributed] rank 2 (n2, pid 1002) gave no sign for 24 s; its last step was 43; it never "
        "joined "
        "collective 16 (gradients 0)");
}

TEST_CASE("the longest silent rank is the one named") {
  Scene scene;
  scene.judge.see(2, beat_of(2, 1, 10), 5);
  scene.judge.see(1, beat_of(1, 1, 10), 3);
  CHECK(scene.judge.accuse(scene.mine, -1, 40)->rank == 1);
}

TEST_CASE("after a stop of the reader itself nobody is accused of it") {
  Scene scene;
  scene.lively(0, 10, 10, 10);
  scene.judge.forgive(100);
  CHECK(scene.accusation(-1, 100).empty());
  CHECK(scene.accusation(-1, 119).empty());
  CHECK_FALSE(scene.accusation(-1, 121).empty());
}

TEST_CASE("a dead process is known after a second") {
  Scene scene;
  scene.lively(0, 10, 10, 10);
  scene.dead = 1;
  CHECK(scene.accusation(-1, 10.1).empty());
  CHECK(scene.accusation(-1, 10.9).empty());
  CHECK(scene.accusation(-1, 11.2) ==
        "[distributed] rank 1 (n1, pid 1001) died; its last step was 41; it never joined "
        "collective 11, "
        "which nobody had begun yet");
}

TEST_CASE("a rank that left behind the last barrier is not accused") {
  Scene scene;
  scene.lively(0, 10, 10, 10);
  Heartbeat ending = beat_of(1, 100, 11);
  ending.phase = kEnding;
  scene.judge.see(1, ending, 11);
  scene.dead = 1;
  // Mine is not there yet: then the other one died too early.
  CHECK(scene.accusation(-1, 11).empty());
  CHECK_FALSE(scene.accusation(-1, 13).empty());
  scene.mine.phase = kEnding;
  CHECK(scene.accusation(-1, 14).empty());
  // In the barrier, though, a silent rank is one that died there.
  scene.judge.see(2, beat_of(2, 900, 11), 32);
  CHECK_FALSE(scene.accusation(11, 32).empty());
  Heartbeat ended = ending;
  ended.phase = kEnded;
  scene.judge.see(1, ended, 32);
  CHECK(scene.accusation(11, 50).empty());
}

TEST_CASE("the step time-out counts only while others wait in a collective") {
  Scene scene;
  scene.mine.step_time = 1;              // so 60 s
  CHECK(scene.judge.time_out() == 600);  // before any step is known: the start-up's
  scene.lively(0, 200, 10, 10);
  CHECK(scene.accusation(-1, 200).empty());  // nobody waits
  CHECK(scene.judge.time_out() == 60);
  scene.mine.begun = 11;
  scene.lively(201, 260, 11, 10);
  CHECK(scene.accusation(201, 260).empty());
  for (double now = 261; now <= 325; now += 1) {
    scene.lively(now, now, 11, 10);
    const std::string line = scene.accusation(201, now);
    if (now <= 320) CHECK(line.empty());
    if (now > 321)
      CHECK(line.starts_with(
          "[distributed] rank 2 (n2, pid 1002) is alive but kept the others waiting "
          "for 6"));
  }
}

TEST_CASE("long steps get a longer time-out, and a long phase the phase's") {
  Scene scene;
  scene.mine.step_time = 30;
  scene.lively(0, 1, 10, 10);
  CHECK(scene.accusation(-1, 1).empty());
  CHECK(scene.judge.time_out() == 600);
  scene.mine.step_time = 30;
  scene.mine.begun = 11;
  Heartbeat writing = beat_of(2, 1, 10);
  writing.phase = "checkpoint";
  for (double now = 2; now < 3700; now += 1) {
    scene.judge.see(1, beat_of(1, static_cast<int64_t>(now), 11), now);
    writing.counter = static_cast<int64_t>(now);
    scene.judge.see(2, writing, now);
    const std::string line = scene.accusation(2, now);
    if (now < 3600) REQUIRE(line.empty());
    if (now > 3610)
      REQUIRE(line.find("is alive in 'checkpoint' but kept the others waiting for 36") !=
              std::string::npos);
  }
}

TEST_CASE("behind a long phase the step time-out begins anew") {
  Scene scene;
  scene.mine.step_time = 1;
  scene.mine.begun = 11;
  Heartbeat other = beat_of(2, 1, 10);
  other.phase = "checkpoint";
  for (double now = 2; now <= 1000; now += 1) {
    other.counter = static_cast<int64_t>(now);
    if (now == 900) other.phase = "";
    scene.judge.see(1, beat_of(1, static_cast<int64_t>(now), 11), now);
    scene.judge.see(2, other, now);
    const bool accused = !scene.accusation(2, now).empty();
    if (now <= 960) REQUIRE_FALSE(accused);
    if (now > 962) REQUIRE(accused);
  }
}

TEST_CASE("a collective that all joined and that does not end accuses the network") {
  Scene scene;
  scene.mine.step_time = 1;
  scene.mine.what = "gradients";
  scene.lively(0, 100, 10, 10);
  CHECK(scene.accusation(40, 100).empty());
  CHECK(scene.accusation(30, 100) ==
        "[distributed] collective 10 (gradients) was joined by all ranks but did not end in 70 s: "
        "does the "
        "network lose packets?");
}

TEST_CASE("of many ranks only who sees all of them says that all joined") {
  // 100 ranks: rank 1 sees its 16 next ones, and one that it does not see keeps all waiting.
  Judge judge(1, 100, Bounds{}, [](const Heartbeat&) { return false; });
  Heartbeat mine = beat_of(1, 1, 10);
  mine.step_time = 1;
  const auto see = [&](int rank, int64_t counter, double now) {
    judge.see(rank, beat_of(rank, counter, 10), now);
  };
  for (int64_t now = 0; now <= 1000; ++now) {
    for (int rank = 2; rank <= 17; ++rank) see(rank, now, static_cast<double>(now));
    REQUIRE_FALSE(judge.accuse(mine, 0, static_cast<double>(now)));
  }
  // Rank 0 sees all.
  for (const double now : {1000.0, 1065.0}) {
    for (int rank = 0; rank < 100; ++rank)
      if (rank != 1) see(rank, static_cast<int64_t>(now), now);
  }
  const auto lost = judge.accuse(mine, 0, 1065);
  REQUIRE(lost);
  CHECK(lost->rank == -1);
}

TEST_CASE("a collective that all have joined is not late because the last one came late") {
  Scene scene;
  scene.mine.step_time = 1;
  scene.mine.begun = 11;
  Heartbeat writing = beat_of(2, 1, 10);
  writing.phase = "checkpoint";
  for (double now = 0; now <= 3000; now += 1) {
    writing.counter = static_cast<int64_t>(now);
    if (now > 1000) writing.begun = 11, writing.phase = "";  // it has come
    scene.judge.see(1, beat_of(1, static_cast<int64_t>(now), 11), now);
    scene.judge.see(2, writing, now);
    const std::string line = scene.accusation(0, now);
    if (now <= 1060) REQUIRE(line.empty());
    if (now >= 1067) REQUIRE(line.find("did not end in 6") != std::string::npos);
    if (now >= 1070) break;
  }
  // Nor because the reader itself was stopped meanwhile.
  scene.judge.forgive(5000);
  CHECK(scene.accusation(0, 5001).empty());
}

TEST_CASE("in a long phase a collective may take as long as the phase") {
  for (const bool own : {true, false}) {
    Scene scene;
    scene.mine.step_time = 1;
    Heartbeat other = beat_of(2, 1, 10);
    (own ? scene.mine : other).phase = "evaluation";
    for (double now = 0; now <= 3700; now += 1) {
      other.counter = static_cast<int64_t>(now);
      scene.judge.see(1, beat_of(1, static_cast<int64_t>(now), 10), now);
      scene.judge.see(2, other, now);
      const std::string line = scene.accusation(0, now);
      if (now <= 3600) REQUIRE(line.empty());
      if (now > 3605) REQUIRE(line.find("does the network lose packets?") != std::string::npos);
    }
  }
}

TEST_CASE("the start's time-out does not fire while a rank reads what the run starts from") {
  Scene scene;  // no step is known
  scene.mine.begun = 11;
  Heartbeat reading = beat_of(2, 1, 10);
  reading.phase = "start";
  for (double now = 0; now <= 3700; now += 1) {
    reading.counter = static_cast<int64_t>(now);
    scene.judge.see(1, beat_of(1, static_cast<int64_t>(now), 11), now);
    scene.judge.see(2, reading, now);
    const std::string line = scene.accusation(0, now);
    if (now <= 3600) REQUIRE(line.empty());
    if (now > 3601)
      REQUIRE(line.find("rank 2 (n2, pid 1002) is alive in 'start' but") != std::string::npos);
  }
}

TEST_CASE("the last barrier is no long phase") {
  Scene scene;
  scene.mine.step_time = 1;
  scene.mine.phase = kEnding;
  Heartbeat ending = beat_of(1, 1, 10);
  ending.phase = kEnding;
  std::string line;
  for (double now = 0; now <= 70 && line.empty(); now += 1) {
    ending.counter = static_cast<int64_t>(now);
    scene.judge.see(1, ending, now);
    scene.judge.see(2, ending, now);
    line = scene.accusation(0, now);
  }
  CHECK(line.find("did not end in 65 s") != std::string::npos);
}

TEST_CASE("a rank that is slow in three beats in a row is reported once with its ratio") {
  Scene scene;
  int64_t counter = 0;
  const auto see = [&](int rank, double own) {
    Heartbeat beat = beat_of(rank, ++counter, 10);
    beat.own_time = own;
    scene.judge.see(rank, beat, 1);
  };
  scene.mine.own_time = 0.1;
  see(1, 0.11);
  CHECK_FALSE(scene.judge.slow(scene.mine));  // rank 2 has measured nothing yet
  // Too little, then twice with a better one between.
  for (const double own : {0.19, 0.19, 0.19, 0.33, 0.33, 0.12, 0.33, 0.33}) {
    see(2, own);
    CHECK_FALSE(scene.judge.slow(scene.mine));
    CHECK_FALSE(scene.judge.slow(scene.mine));  // the same beat counts once
  }
  see(2, 0.33);
  const auto slow = scene.judge.slow(scene.mine);
  REQUIRE(slow);
  CHECK(slow->rank == 2);
  CHECK(slow->ratio == Approx(3));
  for (int i = 0; i < 5; ++i) {
    see(2, 0.33);
    CHECK_FALSE(scene.judge.slow(scene.mine));
  }
}

TEST_CASE("a few milliseconds make no rank slow") {
  Scene scene;
  scene.mine.own_time = 0.009;
  for (int64_t counter = 1; counter < 9; ++counter) {
    for (const int rank : {1, 2}) {
      Heartbeat beat = beat_of(rank, counter, 10);
      beat.own_time = 0.003;
      scene.judge.see(rank, beat, 1);
    }
    scene.mine.counter = counter;
    CHECK_FALSE(scene.judge.slow(scene.mine));
  }
}

TEST_CASE("beats and accusations are read back, and nonsense is no beat") {
  Heartbeat beat = beat_of(3, 9, 17, "a name\twith\na line");
  beat.phase = "checkpoint";
  beat.step_time = 0.25;
  beat.machine = "boot ns";
  beat.started = 123456789012345;
  const auto back = Heartbeat::parse(beat.text());
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
  const auto accusation = Accusation::parse(Accusation{4, "was killed by signal 9"}.text());
  REQUIRE(accusation);
  CHECK(accusation->rank == 4);
  CHECK(accusation->cause == "was killed by signal 9");
  CHECK_FALSE(Accusation::parse("-"));
  CHECK_FALSE(Accusation::parse("x\ty"));
}

TEST_CASE("this process is alive, and a pid that came again is another process") {
  const Heartbeat mine = heartbeat_of_this_process();
  CHECK_FALSE(mine.machine.empty());
  CHECK_FALSE(known_dead(mine, mine));
  Heartbeat other = mine;
  other.started += 1;
  CHECK(known_dead(other, mine));
  other.machine = "elsewhere";  // nothing is known of other machines
  CHECK_FALSE(known_dead(other, mine));
  other = mine;
  other.pid = 1 << 30;
  CHECK(known_dead(other, mine));
}

TEST_CASE("the step clock takes waiting and pauses out") {
  StepClock clock;
  double now = 0;
  for (int i = 0; i < 30; ++i) {
    CHECK((clock.step_time() > 0) == (i > 3));
    CHECK((clock.own_time() > 0) == (i > 20));
    now += 1;
    clock.waited(0.75);
    clock.step(now);
  }
  CHECK(clock.step_time() == Approx(1));
  CHECK(clock.own_time() == Approx(0.25));
  clock.skip();  // a checkpoint
  clock.step(now + 100);
  for (int i = 0; i < 30; ++i) clock.step(now + 102 + 2 * i);
  CHECK(clock.step_time() == Approx(2));
}

}  // namespace
}  // namespace bv
