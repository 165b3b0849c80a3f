#include "lib/distributed/watch/deadline.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "lib/distributed/watch/exit_now.h"

namespace bv {
namespace {

constexpr double kSlice = 0.5;  // seconds

}  // namespace

struct Deadline::Impl {
  std::mutex mutex;
  std::condition_variable changed;
  bool met = false;
  std::thread thread;
};

Deadline::Deadline(double limit, std::string line) : impl_(std::make_unique<Impl>()) {
  impl_->thread = std::thread([impl = impl_.get(), limit, line = std::move(line)] {
    std::unique_lock lock(impl->mutex);
    // Waits in slices: however long this process was stopped, that counts as one slice.
    for (double left = limit; left > 0; left -= kSlice) {
      const std::chrono::duration<double> slice(std::min(left, kSlice));
      if (impl->changed.wait_for(lock, slice, [&] { return impl->met; })) return;
    }
    exit_now(Exit::peer, line);
  });
}

Deadline::~Deadline() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->met = true;
  }
  impl_->changed.notify_all();
  impl_->thread.join();
}

}  // namespace bv
