#include "lib/report/storage_retries.h"

#include <array>
#include <chrono>

#include "lib/report/log.h"
#include "lib/util/crash_point.h"
#include "lib/util/error.h"

namespace bv {
namespace {

constexpr std::array<double, 3> kWaits = {0.2, 1, 5};  // seconds

}  // namespace

void StorageRetries::operator()(const std::function<void()>& action) {
  for (size_t attempt = 0;; ++attempt) {
    try {
      return action();
    } catch (const Error& error) {
      if (error.code() != Exit::storage || attempt == kWaits.size()) throw;
      const double seconds = retry_wait().value_or(kWaits[attempt]);
      log::warn("{}; trying again in {:g} s", error.what(), seconds);
      if (!wait(seconds)) throw;
    }
  }
}

bool StorageRetries::wait(double seconds) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                            [this] { return cancelled_; });
}

void StorageRetries::cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  changed_.notify_all();
}

}  // namespace bv
