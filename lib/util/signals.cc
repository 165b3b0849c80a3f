#include "lib/util/signals.h"

#include <unistd.h>
#include <csignal>

#include <atomic>

namespace bv {
namespace {

std::atomic<int> g_code{0};
static_assert(std::atomic<int>::is_always_lock_free);

void on_signal(int signal) {
  // The second Ctrl-C ends the process at once. _exit, because a signal handler may not run
  // destructors or flush buffers.
  if (signal == SIGINT && g_code == static_cast<int>(Exit::sigint))
    _exit(static_cast<int>(Exit::sigint));
  g_code = static_cast<int>(signal == SIGINT    ? Exit::sigint
                            : signal == SIGUSR1 ? Exit::stopped
                                                : Exit::sigterm);
}

}  // namespace

void install_signal_handlers() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) sigaction(signal, &action, nullptr);
  struct sigaction hangup {};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);  // ignored under nohup
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // a write past `ulimit -f` then fails like any other: exit code 5
}

Exit stop_requested() { return static_cast<Exit>(g_code.load(std::memory_order_relaxed)); }

void poll_signals() {
  if (const Exit code = stop_requested(); code != Exit::ok) throw Stopped{code};
}

}  // namespace bv
