// Compute threads that are already running. This file must come after spin_throttle_test.cc, which
// counts threads: those that are started here stay until the end of the process.
#include <catch2/catch.hpp>
#include <thread>

#include "lib/device/compute_threads.h"
#include "test/support/error.h"
#include "test/support/limits.h"

namespace bv::test {

TEST_CASE("compute threads that run already are not tried again") {
  std::string line = "not run";
  // The number of compute threads is that of the thread that starts them.
  std::thread([&] {
    constexpr int kThreads = 64;
    start_compute_threads(kThreads);
    const Limit little = little_memory();
    line = error_of([] { start_compute_threads(kThreads); });
  }).join();
  CHECK(line == "");
}

}  // namespace bv::test
