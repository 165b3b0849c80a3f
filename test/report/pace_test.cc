#include "lib/report/pace.h"

#include <catch2/catch.hpp>

namespace bv {
namespace {

constexpr int64_t kBatch = 32;

// Steps of one second, of which a tenth is waiting for data, from `first` on.
struct Steps {
  explicit Steps(int64_t first, int64_t total = 1000) : pace(total, kBatch), at{first, 100, 0, 0} {
    pace.start(at);
  }
  void run(int64_t to, int64_t log_every, double seconds = 1) {
    while (at.step < to) {
      ++at.step;
      at.now += seconds;
      at.waited += seconds / 10;
      pace.add(at, at.step % log_every == 0);
    }
  }
  void pause(double seconds) {
    at.now += seconds;
    at.paused += seconds;
  }
  Pace pace;
  Pace::Reading at;
};

}  // namespace

TEST_CASE("pace: nothing is known after a start or a restart, until an interval of steps is over") {
  for (const int64_t first : {0, 500}) {
    Steps steps(first);
    for (int i = 1; i <= 3; ++i) {
      steps.run(first + i, 10);
      CHECK_FALSE(steps.pace.images_per_second());
      CHECK_FALSE(steps.pace.data_wait());
      CHECK_FALSE(steps.pace.eta_seconds());
      CHECK_FALSE(steps.pace.mean_images_per_second());
    }
    steps.run(first + 4, 10);  // two steps after the two slow ones
    CHECK(*steps.pace.images_per_second() == Approx(kBatch));
    CHECK(*steps.pace.data_wait() == Approx(0.1));
    CHECK(*steps.pace.eta_seconds() == Approx(1000 - first - 4));
    CHECK(*steps.pace.mean_images_per_second() == Approx(kBatch));
    CHECK(steps.pace.training_seconds() == Approx(4));
  }
}

TEST_CASE("pace: the speed is that of the last logged interval, without pauses") {
  Steps steps(0);
  steps.run(10, 10);
  steps.pause(60);
  steps.run(20, 10, 2);
  CHECK(*steps.pace.images_per_second() == Approx(kBatch / 2.0));
  CHECK(*steps.pace.data_wait() == Approx(0.1));
  steps.run(29, 10, 0.5);  // not over yet
  CHECK(*steps.pace.images_per_second() == Approx(kBatch / 2.0));
  steps.run(30, 10, 0.5);
  CHECK(*steps.pace.images_per_second() == Approx(kBatch / 0.5));
  // Two seconds of warm-up, then 8 + 20 + 5 seconds for 28 steps.
  CHECK(*steps.pace.mean_images_per_second() == Approx(28 * kBatch / 33.0));
  CHECK(steps.pace.training_seconds() == Approx(35));
  // Pauses also count for the rest of the run.
  CHECK(*steps.pace.eta_seconds() == Approx((33 + 60) / 28.0 * 970));
}

TEST_CASE("pace: an interval is never one step, nor shorter than half a second") {
  Steps steps(0);
  steps.run(4, 1);
  steps.run(5, 1, 100);  // one slow step that is logged
  CHECK(*steps.pace.images_per_second() == Approx(kBatch));
  steps.run(6, 1, 100);
  CHECK(*steps.pace.images_per_second() == Approx(kBatch / 100.0));
  steps.run(106, 1, 0.001);  // 0.1 s
  CHECK(*steps.pace.images_per_second() == Approx(kBatch / 100.0));
  steps.run(606, 1, 0.001);
  CHECK(*steps.pace.images_per_second() == Approx(kBatch / 0.001));
}

TEST_CASE(
    "pace: the time of evaluations does not count in the share of time spent waiting for data") {
  const Pace::Reading from{20, 100, 7, 3};
  const auto data_wait = [&](const Pace::Reading& to) { return Pace::Span{from, to}.data_wait(); };
  CHECK(data_wait({40, 102, 7, 4}) == Approx(0.5));
  CHECK(data_wait({40, 132, 37, 4}) == Approx(0.5));
  CHECK(data_wait({40, 100, 7, 3}) == 0);  // a clock that stands still
  // The readings of two clocks may differ a little.
  CHECK(data_wait({40, 102, 7, 5.001}) == 1);
  CHECK(data_wait({40, 100, 7, 3.001}) == 1);
}

TEST_CASE("pace: the end of the run has no remaining time; a run of two steps has no speed") {
  Steps steps(0, 20);
  steps.run(20, 5);
  CHECK_FALSE(steps.pace.eta_seconds());
  Steps two(0, 2);
  two.run(2, 1);
  CHECK_FALSE(two.pace.mean_images_per_second());
  CHECK(two.pace.training_seconds() == Approx(2));
  CHECK(Pace(0, kBatch).training_seconds() == 0);
}

}  // namespace bv
