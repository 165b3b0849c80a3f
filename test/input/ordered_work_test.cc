// The order of results, and what ends the work.
#include "lib/input/ordered_work.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "lib/util/error.h"
#include "lib/util/signals.h"
#include "test/support/child.h"
#include "test/support/error.h"
#include "test/support/limits.h"

namespace bv::test {

TEST_CASE("results are taken in order, whatever the threads and the time that each takes") {
  for (const int threads : {1, 2, 7}) {
    std::vector<int64_t> taken;
    results_in_order(
        300, threads,
        [](int64_t i) {
          if (i % 50 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          return i * i;
        },
        [&](int64_t i, int64_t result) {
          REQUIRE(i == std::ssize(taken));
          taken.push_back(result);
        });
    REQUIRE(taken.size() == 300);
    CHECK(taken[299] == 299 * 299);
  }
}

TEST_CASE("no work runs further ahead than is allowed") {
  std::atomic<int64_t> taken = 0, farthest = 0;
  work_in_order(
      200, 4, 3,
      [&](int64_t i) {
        const int64_t ahead = i - taken;
        for (int64_t most = farthest;
             ahead > most && !farthest.compare_exchange_weak(most, ahead);) {
        }
      },
      [&](int64_t) { ++taken; });
  CHECK(taken == 200);
  CHECK(farthest <= 3);
}

TEST_CASE("the error of the lowest piece ends the work") {
  for (const int threads : {1, 4}) {
    std::atomic<int64_t> calls = 0, taken = 0;
    const std::string error = error_of([&] {
      work_in_order(
          100'000, threads, 8,
          [&](int64_t i) {
            ++calls;
            if (i >= 10) throw Error(Exit::usage, "", fmt::format("piece {}", i));
          },
          [&](int64_t) { ++taken; });
    });
    CHECK(error == "error: piece 10");
    CHECK(calls < 100);
    CHECK(taken <= 10);
  }
  CHECK(error_of([] {
          work_in_order(
              5, 2, 8, [](int64_t) {},
              [](int64_t i) {
                if (i == 3) throw Error(Exit::usage, "", "taking");
              });
        }) == "error: taking");
}

// After a stop no result is taken, so no slot becomes free. Threads that wait for a slot must end.
TEST_CASE("a signal ends the work, also that of threads that wait") {
  if (kThreadSanitized) return;
  const int status = run_in_child([] {
    ::alarm(60);  // ends a child that hangs
    stop_at(0.001);
    for (int round = 0; round < 100; ++round) {
      bool stopped = false;
      try {
        work_in_order(
            1000, 8, 1, [](int64_t) { std::this_thread::sleep_for(std::chrono::milliseconds(1)); },
            [](int64_t) {});
      } catch (const Stopped&) {
        stopped = true;
      }
      if (!stopped) ::_exit(1);
    }
  });
  CHECK(status == 0);
}

}  // namespace bv::test
