// Counts how often a file is opened.
#pragma once

#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <functional>
#include <string>

namespace bv::test {

// Watches a file, which must exist.
class OpenWatch {
 public:
  explicit OpenWatch(const std::string& file) : fd_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
    REQUIRE(fd_ >= 0);
    // Also watches for closing, because the kernel merges equal consecutive events.
    REQUIRE(::inotify_add_watch(fd_, file.c_str(), IN_OPEN | IN_CLOSE) >= 0);
  }
  ~OpenWatch() { ::close(fd_); }
  OpenWatch(const OpenWatch&) = delete;

  // Returns how often the file was opened since the last call.
  int count() {
    std::array<inotify_event, 64> events{};  // without names: the file itself is watched
    const ssize_t bytes = ::read(fd_, events.data(), sizeof(events));
    const auto end = events.begin() + std::max<ssize_t>(bytes, 0) / ssize_t{sizeof(inotify_event)};
    return static_cast<int>(std::count_if(events.begin(), end, [](const inotify_event& event) {
      return (event.mask & IN_OPEN) != 0;
    }));
  }

 private:
  const int fd_;
};

// Returns how often `file` is opened while `call` runs.
inline int opens_of(const std::string& file, const std::function<void()>& call) {
  OpenWatch watch(file);
  call();
  return watch.count();
}

}  // namespace bv::test
