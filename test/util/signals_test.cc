// The effect of signals on a process with bvtrain's handlers.
#include "lib/util/signals.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "test/support/child.h"
#include "test/support/folder.h"

namespace bv::test {
namespace {

constexpr int kNotEnded = 42;

// Returns the exit code of a child that installs the handlers and runs `body`.
int code_of(const std::function<void()>& body) {
  const int status = run_in_child([&] {
    install_signal_handlers();
    body();
    ::_exit(kNotEnded);
  });
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

constexpr std::pair<int, int> kCodes[] = {
    {SIGTERM, 143}, {SIGHUP, 143}, {SIGINT, 130}, {SIGUSR1, 75}};

}  // namespace

TEST_CASE("a signal is remembered, or ends a process that has nothing to save") {
  for (const auto& [signal, code] : kCodes) {
    CHECK(code_of([&] {
            ::raise(signal);
            if (static_cast<int>(stop_requested()) != code) ::_exit(1);
          }) == kNotEnded);
    CHECK(code_of([&] {
            end_on_signals();
            ::raise(signal);
          }) == code);
    CHECK(code_of([&] {
            ::raise(signal);
            end_on_signals();
          }) == code);
  }
}

TEST_CASE("a process keeps the exit codes of its children, even if its parent ignored SIGCHLD") {
  const int status = run_in_child([] {
    ::signal(SIGCHLD, SIG_IGN);
    install_signal_handlers();
    ::_exit(WEXITSTATUS(run_in_child([] { ::_exit(kNotEnded); })));
  });
  CHECK(WEXITSTATUS(status) == kNotEnded);
}

TEST_CASE("a signal that came while it was blocked, as in a rank that starts, is not lost") {
  for (const auto& [signal, code] : kCodes) {
    const int status = run_in_child([&] {
      const sigset_t signals = stop_signals();
      ::sigprocmask(SIG_BLOCK, &signals, nullptr);
      ::raise(signal);
      install_signal_handlers();
      ::_exit(static_cast<int>(stop_requested()));
    });
    CHECK(WEXITSTATUS(status) == code);
  }
}

TEST_CASE("one Ctrl-C that arrives twice counts once; a later one ends the process") {
  CHECK(code_of([] {
          ::raise(SIGINT);
          ::raise(SIGINT);
        }) == kNotEnded);
  CHECK(code_of([] {
          ::raise(SIGINT);
          ::usleep(1'100'000);
          ::raise(SIGINT);
        }) == 130);
}

TEST_CASE("another signal between two Ctrl-C does not make the second one the first") {
  CHECK(code_of([] {
          ::raise(SIGINT);
          ::raise(SIGTERM);
          ::usleep(1'100'000);
          ::raise(SIGINT);
        }) == 130);
}

TEST_CASE("a signal that ends the process deletes unfinished files, and no others") {
  const TempFolder folder;
  for (const char* name : {"a", "b", "c"}) folder.write(name, "x");
  CHECK(code_of([&] {
          end_on_signals();
          const DeletedOnSignal a(folder / "a"), b(folder / "b");
          { const DeletedOnSignal finished(folder / "c"); }
          ::raise(SIGTERM);
        }) == 143);
  CHECK_FALSE(exists(folder / "a"));
  CHECK_FALSE(exists(folder / "b"));
  CHECK(exists(folder / "c"));
}

}  // namespace bv::test
