#include "lib/device/spin_throttle.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <omp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <system_error>
#include <thread>

#include "lib/device/compute_threads.h"

namespace bv {
namespace {

constexpr auto kPeriod = std::chrono::milliseconds(20);
// A run that is alone waits 1 to 3 % of the time, for its loader's threads. Next to another busy
// process it waits 35 to 50 %, throttled or not.
constexpr double kContended = 0.2, kFree = 0.1;
constexpr int64_t kBusyWindow = 40'000'000, kFreeWindow = 500'000'000;  // nanoseconds

}  // namespace

// An OpenMP team that only sleeps. libgomp still counts its threads.
class IdleTeam {
 public:
  explicit IdleTeam(int threads) : thread_([this, threads] { hold(threads); }) {}
  ~IdleTeam() {
    {
      const std::lock_guard lock(mutex_);
      end_ = true;
    }
    changed_.notify_one();
    thread_.join();  // libgomp dismisses a team when its first thread ends
  }
  IdleTeam(const IdleTeam&) = delete;

 private:
  void hold(int threads) {
    std::atomic<int> arrived = 0;
#pragma omp parallel num_threads(threads)
    ++arrived;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return end_; });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool end_ = false;
  std::thread thread_;  // last: it uses the members above
};

// Returns null if the system allows no more threads: the run then continues without it.
static std::unique_ptr<IdleTeam> make_team(int threads) {
  try {
    try_threads(threads);
    return std::make_unique<IdleTeam>(threads);
  } catch (const std::system_error&) {
    return nullptr;
  }
}

// The time in nanoseconds that a thread was runnable but waited for a core; -1: unknown.
class WaitClock {
 public:
  WaitClock()
      : fd_(::open(fmt::format("/proc/self/task/{}/schedstat", ::syscall(SYS_gettid)).c_str(),
                   O_RDONLY | O_CLOEXEC)) {}
  ~WaitClock() {
    if (fd_ >= 0) ::close(fd_);
  }
  WaitClock(const WaitClock&) = delete;

  int64_t read() const {
    char text[128];
    const ssize_t n = fd_ < 0 ? -1 : ::pread(fd_, text, sizeof(text) - 1, 0);
    if (n <= 0) return -1;
    text[n] = 0;
    long long ran = 0, waited = 0;
    return std::sscanf(text, "%lld %lld", &ran, &waited) == 2 ? waited : -1;
  }

 private:
  const int fd_;
};

bool ContentionDetector::update(int64_t elapsed, int64_t waited) {
  elapsed_ += elapsed;
  waited_ += waited;
  if (elapsed_ < (contended_ ? kFreeWindow : kBusyWindow)) return contended_;
  const double share = static_cast<double>(waited_) / static_cast<double>(elapsed_);
  contended_ = contended_ ? share > kFree : share > kContended;
  elapsed_ = waited_ = 0;
  return contended_;
}

struct SpinThrottle::Impl {
  explicit Impl(int extra) : extra_threads(extra), watcher([this] { watch(); }) {}
  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      end = true;
    }
    changed.notify_one();
    watcher.join();
  }

  void watch() {
    using Clock = std::chrono::steady_clock;
    ContentionDetector detector;
    std::unique_ptr<IdleTeam> team;
    auto last = Clock::now();
    int64_t last_waited = clock.read();
    std::unique_lock lock(mutex);
    while (!changed.wait_for(lock, kPeriod, [this] { return end; })) {
      const auto now = Clock::now();
      const int64_t waited = clock.read();
      if (waited < 0) break;
      const bool contended =
          detector.update(std::chrono::duration_cast<std::chrono::nanoseconds>(now - last).count(),
                          waited - last_waited);
      last = now;
      last_waited = waited;
      if (contended == (team != nullptr)) continue;
      team.reset();
      if (contended) team = make_team(extra_threads + 1);
      if (contended && !team) break;
      throttled = contended;
    }
  }

  const WaitClock clock;  // of the thread that made this
  const int extra_threads;
  std::atomic<bool> throttled = false;
  std::mutex mutex;
  std::condition_variable changed;
  bool end = false;
  std::thread watcher;  // last: it uses the members above
};

SpinThrottle::SpinThrottle(int compute_threads) {
  if (compute_threads < 2 || std::getenv("GOMP_SPINCOUNT") || std::getenv("OMP_WAIT_POLICY"))
    return;
  if (WaitClock().read() < 0) return;
  // Makes libgomp manage one more thread than there are cores.
  impl_ = std::make_unique<Impl>(std::max(omp_get_num_procs() - compute_threads, 0) + 1);
}

SpinThrottle::~SpinThrottle() = default;

bool SpinThrottle::throttled() const { return impl_ && impl_->throttled; }

}  // namespace bv
