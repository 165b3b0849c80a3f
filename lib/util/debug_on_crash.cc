#include "lib/util/debug_on_crash.h"

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <initializer_list>

namespace bv {
namespace {

char g_line[256];  // built before a crash, because a handler may only use system calls

void on_crash(int) {
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, g_line, std::strlen(g_line));
  while (true) ::pause();
}

}  // namespace

void wait_for_debugger_on_crash() {
  const long pid = ::getpid();
  std::snprintf(
      g_line, sizeof(g_line),
      "bvtrain: process %ld has crashed and waits for a debugger: gdb -p %ld shows where; "
      "kill -9 %ld ends it\n",
      pid, pid, pid);
  struct sigaction action {};
  action.sa_handler = on_crash;
  for (const int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGILL}) ::sigaction(signal, &action, nullptr);
}

}  // namespace bv
