// Resource limits of this process, for tests of behaviour without these resources.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "test/support/clock.h"

namespace bv::test {

// Whether the tests and the program are built with a sanitizer, which needs additional memory and
// address space and keeps freed memory for a while.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// How many times as long a program may take to start, for tests that wait for a number of seconds.
inline constexpr int kSlowness = kSanitized ? 8 : 1;

// The thread sanitizer does not support threads in a forked child of a multi-threaded process.
// Tests with such a child cannot run under it.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitized = true;
#else
inline constexpr bool kThreadSanitized = false;
#endif

// While it exists, a limit of this process is lower.
class Limit {
 public:
  Limit(__rlimit_resource what, rlim_t value) : what_(what) {
    ::getrlimit(what_, &before_);
    const rlimit lower{value, before_.rlim_max};
    ::setrlimit(what_, &lower);
  }
  ~Limit() { ::setrlimit(what_, &before_); }
  Limit(const Limit&) = delete;

 private:
  __rlimit_resource what_;
  rlimit before_{};
};

// The address space of this process in bytes.
inline rlim_t address_space() {
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
}

// The threads of this process.
inline size_t thread_count() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
    ++count;
  return count;
}

// Whether all threads of this process except the calling one are asleep.
inline bool others_sleep() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == std::to_string(::gettid())) continue;
    std::string stat;  // PID (NAME) STATE ...
    std::getline(std::ifstream(task.path() / "stat"), stat);
    const size_t name_end = stat.rfind(") ");
    if (name_end != std::string::npos && stat[name_end + 2] != 'S') return false;
  }
  return true;
}

// While the result exists, this process gets at most 64 MiB of memory. That is not enough for the
// stacks of kTooManyThreads threads, even small ones. First waits until all other threads are
// asleep, because a thread of LibTorch's profiler ends the process if it gets no memory at its
// start.
inline Limit little_memory() {
  wait_until(others_sleep);
  return Limit(RLIMIT_AS, address_space() + (64 << 20));
}
inline constexpr int kTooManyThreads = 200;

}  // namespace bv::test
