// A part of a test that runs in a forked child, because it ends or changes its process.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <functional>

namespace bv::test {

// Runs `body` in a forked child and returns its status as waitpid() gives it. The child exits with
// 0, or with 99 if body threw.
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

}  // namespace bv::test
