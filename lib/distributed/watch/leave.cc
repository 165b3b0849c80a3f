#include "lib/distributed/watch/leave.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "lib/report/log.h"

namespace bv {
namespace {

constexpr double kLook = 0.5;  // seconds

// Not where nobody reads any more and a write would wait.
void say(const std::string& text) {
  pollfd out{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&out, 1, 0) != 1) return;
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

void leave_now(Exit code, const std::string& line) {
  static std::mutex once;
  once.lock();  // never unlocked: the first one leaves
  const int number = static_cast<int>(code);
  const std::string text = line + "\n";
  // The log may be held by a thread that is stuck. Then the process ends all the same.
  std::thread([number, text] {
    std::this_thread::sleep_for(std::chrono::seconds(2));
    say(text);
    _exit(number);
  }).detach();
  log::clear_progress();
  log::write_detail(line);
  log::flush();
  say(text);
  _exit(number);
}

struct Alarm::Impl {
  std::mutex mutex;
  std::condition_variable changed;
  bool off = false;
  std::thread thread;
};

Alarm::Alarm(double limit, std::string line) : impl_(std::make_unique<Impl>()) {
  impl_->thread = std::thread([impl = impl_.get(), limit, line = std::move(line)] {
    std::unique_lock lock(impl->mutex);
    // Time in which this process was itself stopped counts as one look.
    for (double left = limit; left > 0; left -= kLook) {
      const std::chrono::duration<double> look(std::min(left, kLook));
      if (impl->changed.wait_for(lock, look, [&] { return impl->off; })) return;
    }
    leave_now(Exit::peer, line);
  });
}

Alarm::~Alarm() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->off = true;
  }
  impl_->changed.notify_all();
  impl_->thread.join();
}

}  // namespace bv
