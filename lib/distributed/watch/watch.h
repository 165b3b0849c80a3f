// Watches over a group. Each rank publishes a heartbeat in the run's store and reads those of the
// other ranks. When a rank is dead, stopped or late, or when the store is lost, every process that
// still runs ends with exit code 7 and one line on stderr and in its log, or with code 0 if the run
// was complete by then (ending()). A process that fails with its own error notifies the others
// (report_own_failure()) and keeps its own exit code.
// failure_detector.h decides which rank has failed, endings.cc ends the process, and watch.cc does
// the I/O and the waiting.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "lib/distributed/launch/rank_layout.h"
#include "lib/distributed/watch/timeouts.h"

namespace bv {

// Key of the first FailureReport of the run, on which all ranks act; kNoFailure until there is one.
inline constexpr const char* kFailureKey = "failure";
inline constexpr const char* kNoFailure = "-";
std::string heartbeat_key(int rank);

// The line of a rank that a signal has stopped before the run's first step.
inline constexpr const char* kStoppedBySignal = "stopped by a signal";

// Thread-safe. Runs two threads: one exchanges heartbeats on its own connection to the store, the
// other checks that the store answers the first one (a stopped store blocks its clients).
class Watch {
 public:
  // Waits for the store and throws as Store does. `address` is layout.address, resolved.
  Watch(const RankLayout& layout, const std::string& address, const Timeouts& timeouts,
        const std::function<bool()>& stop = {});
  ~Watch();  // calls stop()
  Watch(const Watch&) = delete;

  // Returns true when all ranks have sent a heartbeat, false when `stop` returned true before.
  // After Timeouts::startup it ends the process (7) and names the missing ranks.
  bool await_all(const std::function<bool()>& stop);

  // A collective begins. Returns its number.
  int64_t begin(const char* what);
  // The main thread starts to wait for a collective. Waits nest: a collective may be awaited while
  // the thread counts as waiting for its device.
  void await_begin();
  // The main thread starts to wait for its device, or for a collective that runs there.
  void await_device_begin();
  // The main thread has stopped waiting. `joined` is the number of the collective if its end proves
  // that every rank has joined it, otherwise 0.
  void await_end(int64_t joined);
  // The main thread has stopped waiting for its device. Unlike await_end(), this time counts as
  // computation: the host cannot tell whether its device computed or waited for a slow rank.
  void await_device_end();
  // A training step ended.
  void note_step(int64_t step);
  // Starts the long phase `name`, or ends it with "". Returns the previous phase.
  std::string phase(const std::string& name);
  // Collective `number` threw an exception. Waits until the failed rank is known, and ends the
  // process (7, or 0 as after ending()).
  [[noreturn]] void failed(int64_t number, const char* what, const std::string& message);
  // Tells the other ranks that this process ends with the exit code `code`, because of the error
  // `line`. Gives up after a second. On the store's host it also waits until the other ranks have
  // read this.
  void report_own_failure(int code, std::string_view line);

  // Call it before the last barrier of an orderly end. `complete`: the run has succeeded, and this
  // process has nothing more to do. Rank 0 commits the files of all ranks before it comes to the
  // barrier. If a rank is lost after that, this process ends with code 0.
  void ending(bool complete);
  void stop();  // call after it

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bv
