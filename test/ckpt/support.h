// What the tests of this room share: a folder that goes away, the text of an error, child
// processes.
#pragma once

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <random>
#include <string>

#include "lib/util/error.h"

namespace bv {

// In memory where there is such a file system: hundreds of fsyncs would take minutes on a busy
// disk.
class TempFolder {
 public:
  TempFolder() {
    const bool memory = ::access("/dev/shm", W_OK | X_OK) == 0;
    const std::filesystem::path root = memory ? "/dev/shm" : std::filesystem::temp_directory_path();
    std::string name = (root / "bvtrain-ckpt-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// The line of the bv::Error that `call` throws with `code`; "" if it throws none.
inline std::string error_of(const std::function<void()>& call, Exit code = Exit::usage) {
  try {
    call();
  } catch (const Error& error) {
    CHECK(error.code() == code);
    return error.what();
  }
  return "";
}

// Runs `body` in a forked child; its exit status as of waitpid(). 99: it threw.
inline int run_in_child(const std::function<void()>& body) {
  const pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    try {
      body();
    } catch (...) {
      ::_exit(99);
    }
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  return status;
}

// A random change of `content`: a byte set, a bit flipped, bytes cut, repeated or taken away.
inline std::string mutated(std::string content, std::mt19937& random) {
  const auto below = [&](size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(random);
  };
  const int changes = 1 + static_cast<int>(below(3));
  for (int i = 0; i < changes && !content.empty(); ++i) {
    const size_t at = below(content.size());
    switch (below(6)) {
      case 0:
        content[at] = static_cast<char>(below(256));
        break;
      case 1:
        content[at] = static_cast<char>(content[at] ^ (1 << below(8)));
        break;
      case 2:
        content[at] = "\x00\xff\x7f\x80"[below(4)];
        break;
      case 3:
        content.resize(at);
        break;
      case 4:
        content.insert(at, content.substr(at, 1 + below(8)));
        break;
      default:
        content.erase(at, 1 + below(8));
        break;
    }
  }
  return content;
}

}  // namespace bv
