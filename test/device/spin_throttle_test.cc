#include "lib/device/spin_throttle.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "test/support/child.h"
#include "test/support/clock.h"
#include "test/support/limits.h"

namespace bv::test {
namespace {

constexpr int64_t kMillisecond = 1'000'000;

void set_cores(const cpu_set_t& cores) {
  REQUIRE(::sched_setaffinity(0, sizeof(cores), &cores) == 0);
}

// All threads of this process share one core, until set_cores() with the result.
cpu_set_t use_one_core() {
  cpu_set_t before, one;
  REQUIRE(::sched_getaffinity(0, sizeof(before), &before) == 0);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu)
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  set_cores(one);
  return before;
}

// A thread that always wants a core.
class BusyThread {
 public:
  ~BusyThread() { stop(); }
  void stop() {
    end_ = true;
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::atomic<bool> end_ = false;
  std::thread thread_{[this] {
    while (!end_) {
    }
  }};
};

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
  const cpu_set_t before = use_one_core();
  ::unsetenv("GOMP_SPINCOUNT");
  ::unsetenv("OMP_WAIT_POLICY");
  {
    const SpinThrottle throttle(2);
    REQUIRE(throttle.active());
    const size_t threads = thread_count();
    BusyThread busy;
    const auto work_until = [&](bool wanted) {
      for (const double limit = now() + kWatchdog;
           throttle.throttled() != wanted && now() < limit;) {
      }
      return throttle.throttled() == wanted;
    };
    CHECK(work_until(true));
    CHECK(thread_count() > threads + 1);
    busy.stop();
    CHECK(wait_until([&] { return !throttle.throttled(); }));
    CHECK(wait_until([&] { return thread_count() == threads; }));
  }
  set_cores(before);
}

TEST_CASE("a run goes on unthrottled if the system allows no more threads") {
  if (kThreadSanitized || ::getuid() != 0) return;  // it counts the threads of another user
  const int status = run_in_child([] {
    constexpr uid_t kNobodyElse = 61234;
    REQUIRE(::setuid(kNobodyElse) == 0);
    use_one_core();
    // This thread, the busy one, the throttle's watcher and the first thread of its team.
    const Limit few(RLIMIT_NPROC, 4);
    const SpinThrottle throttle(2);
    const BusyThread busy;
    for (const double limit = now() + kWatchdog; thread_count() > 2 && now() < limit;) {
    }
    REQUIRE(thread_count() == 2);  // the watcher has given up
  });
  CHECK(status == 0);
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
