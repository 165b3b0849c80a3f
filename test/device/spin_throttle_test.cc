#include "lib/device/spin_throttle.h"

#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "test/support/clock.h"
#include "test/support/limits.h"

namespace bv::test {
namespace {

constexpr int64_t kMillisecond = 1'000'000;

}  // namespace

TEST_CASE("cores are contended while a thread waits for a core a fifth of the time") {
  ContentionDetector detector;
  // 20 ms at a time, as in the throttle. A run that is alone waits 3 %.
  for (int i = 0; i < 100; ++i)
    CHECK_FALSE(detector.update(20 * kMillisecond, 6 * kMillisecond / 10));
  // A single hiccup is not contention.
  CHECK_FALSE(detector.update(20 * kMillisecond, 0));
  CHECK_FALSE(detector.update(20 * kMillisecond, 7 * kMillisecond));
  detector.update(20 * kMillisecond, 10 * kMillisecond);
  CHECK(detector.update(20 * kMillisecond, 10 * kMillisecond));
  // It stays so at 15 %, and for half a second at 3 %.
  for (int i = 0; i < 100; ++i) CHECK(detector.update(20 * kMillisecond, 3 * kMillisecond));
  int calls = 0;
  while (detector.update(20 * kMillisecond, 6 * kMillisecond / 10)) ++calls;
  CHECK(calls <= 50);
  CHECK(calls >= 20);
}

TEST_CASE("a thread that must wait for a core throttles, and no longer when the cores are free") {
  // All threads of this process share one core.
  cpu_set_t before, one;
  REQUIRE(::sched_getaffinity(0, sizeof(before), &before) == 0);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu)
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  REQUIRE(::sched_setaffinity(0, sizeof(one), &one) == 0);
  ::unsetenv("GOMP_SPINCOUNT");
  ::unsetenv("OMP_WAIT_POLICY");
  {
    const SpinThrottle throttle(2);
    REQUIRE(throttle.active());
    const size_t threads = thread_count();
    std::atomic<bool> end = false;
    std::thread busy([&] {
      while (!end) {
      }
    });
    const auto work_until = [&](bool wanted) {
      for (const double limit = now() + kWatchdog;
           throttle.throttled() != wanted && now() < limit;) {
      }
      return throttle.throttled() == wanted;
    };
    CHECK(work_until(true));
    CHECK(thread_count() > threads + 1);
    end = true;
    busy.join();
    CHECK(wait_until([&] { return !throttle.throttled(); }));
    CHECK(wait_until([&] { return thread_count() == threads; }));
  }
  REQUIRE(::sched_setaffinity(0, sizeof(before), &before) == 0);
}

TEST_CASE("what the user says about spinning counts, and one thread has nobody to wait for") {
  CHECK_FALSE(SpinThrottle(1).active());
  for (const char* name : {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}) {
    ::setenv(name, "1", 1);
    CHECK_FALSE(SpinThrottle(4).active());
    ::unsetenv(name);
  }
}

}  // namespace bv::test
