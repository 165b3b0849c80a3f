#include "lib/util/signals.h"

#include <unistd.h>

#include <array>
#include <cmath>
#include <ctime>

namespace bv {
namespace {

// A second SIGINT within this time counts as the same one: a terminal, a batch system or `kill`
// sends it to every process of a run, and launchers also forward theirs to the ranks.
constexpr int64_t kOneInterrupt = 1000;  // milliseconds

std::atomic<int> g_code{0};
std::atomic<int64_t> g_interrupted{0};  // when the first SIGINT arrived, in milliseconds; 0: none
std::atomic<bool> g_ends{false};        // end_on_signals() was called
std::atomic<int64_t> g_end{0};          // when to stop, in milliseconds; 0: never
std::atomic<bool> g_by_time{false};     // g_code was set because of g_end
// Files to delete. A process has one or two temporary files at a time.
std::array<std::atomic<const char*>, 8> g_files{};
static_assert(std::atomic<int64_t>::is_always_lock_free);
static_assert(std::atomic<const char*>::is_always_lock_free);

int64_t milliseconds() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

[[noreturn]] void end_now() { end_in_handler(g_code); }

// Only system calls and atomic variables: everything else is unsafe in a signal handler.
void on_signal(int signal) {
  g_code = static_cast<int>(signal == SIGINT    ? Exit::sigint
                            : signal == SIGUSR1 ? Exit::stopped
                                                : Exit::sigterm);
  if (g_ends) end_now();
  if (signal != SIGINT) return;
  // Two threads may be here at once, and another signal may have arrived between two SIGINTs.
  const int64_t now = milliseconds();
  int64_t first = 0;
  if (!g_interrupted.compare_exchange_strong(first, now) && now - first >= kOneInterrupt) end_now();
}

}  // namespace

// _exit, because a signal handler may not run destructors or flush buffers.
void end_in_handler(int code) {
  for (auto& slot : g_files) {
    if (const char* file = slot.exchange(nullptr)) ::unlink(file);
  }
  _exit(code);
}

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) sigaddset(&set, signal);
  return set;
}

bool ignores_hangup() {
  struct sigaction hangup {};
  sigaction(SIGHUP, nullptr, &hangup);
  return hangup.sa_handler == SIG_IGN;
}

void install_signal_handlers() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) sigaction(signal, &action, nullptr);
  if (!ignores_hangup()) sigaction(SIGHUP, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
  // A parent may ignore it, and this is inherited: the kernel would keep no exit codes of children.
  signal(SIGCHLD, SIG_DFL);
  signal(SIGXFSZ, SIG_IGN);  // a write past `ulimit -f` then fails like any other: exit code 5
  // The launcher starts its ranks with these signals blocked, so that none is lost or kills a rank
  // that is still loading its libraries.
  const sigset_t signals = stop_signals();
  sigprocmask(SIG_UNBLOCK, &signals, nullptr);
}

void end_on_signals() {
  g_ends = true;
  if (g_code != 0) end_now();
}

Exit stop_requested() {
  const int64_t end = g_end.load(std::memory_order_relaxed);
  if (end != 0 && g_code.load(std::memory_order_relaxed) == 0 && milliseconds() >= end) {
    int none = 0;
    if (g_code.compare_exchange_strong(none, static_cast<int>(Exit::stopped))) g_by_time = true;
  }
  return static_cast<Exit>(g_code.load(std::memory_order_relaxed));
}

void stop_at(double time) { g_end = std::llround(time * 1000); }

bool stopped_by_time() {
  constexpr int64_t kRankApart = 2000;  // milliseconds: another rank's clock may be ahead
  return g_by_time || (g_code == 0 && g_end != 0 && milliseconds() >= g_end - kRankApart);
}

void poll_signals() {
  if (const Exit code = stop_requested(); code != Exit::ok) throw Stopped{code};
}

DeletedOnSignal::DeletedOnSignal(std::string path) : path_(std::move(path)) {
  for (auto& slot : g_files) {
    const char* none = nullptr;
    if (!slot.compare_exchange_strong(none, path_.c_str())) continue;
    slot_ = &slot;
    return;
  }
}

DeletedOnSignal::~DeletedOnSignal() {
  if (slot_ == nullptr || slot_->exchange(nullptr) != nullptr) return;
  while (true) ::pause();  // the handler reads path_ in another thread and ends the process
}

}  // namespace bv
