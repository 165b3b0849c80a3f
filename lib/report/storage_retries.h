// Retries writes and reads that failed because of a disk, a full file system or a network.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>

namespace bv {

class StorageRetries {
 public:
  // Calls `action`. If it throws an Error(Exit::storage), logs a warning and calls it again after
  // 0.2, 1 and 5 s; then throws the error.
  // Any thread may call this.
  void operator()(const std::function<void()>& action);
  // Ends the waits. From now on a failure is thrown at once.
  void cancel();

 private:
  bool wait(double seconds);  // returns whether to try again

  std::mutex mutex_;
  std::condition_variable changed_;
  bool cancelled_ = false;
};

}  // namespace bv
