// The state of a Watch, which watch.cc and endings.cc share.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "lib/distributed/store.h"
#include "lib/distributed/watch/failure_detector.h"
#include "lib/distributed/watch/step_clock.h"
#include "lib/distributed/watch/watch.h"

namespace bv {

struct Watch::Impl {
  using Seconds = std::chrono::duration<double>;
  using WaitFor = FailureDetector::WaitFor;

  Impl(const RankLayout& layout, const std::string& address, const Timeouts& timeouts,
       const std::function<bool()>& stop);

  const RankLayout layout;
  const Timeouts timeouts;
  const std::string where;
  const std::vector<int> watched;
  std::unique_ptr<Store> store;  // once the heartbeat thread runs, only it uses this

  std::mutex mutex;  // guards the members below
  std::condition_variable changed;
  Heartbeat mine;
  FailureDetector detector;
  StepClock clock;
  std::vector<WaitFor> waits;          // begun and not ended, the inner ones last
  double waiting = -1;                 // since when the main thread waits; -1: it does not
  bool all_here = false;               // all ranks have sent a heartbeat
  bool complete = false;               // what ending() was told
  bool stopping = false;               // stop() was called
  bool send_now = false;               // send the next heartbeat immediately
  bool last_sent = false;              // the store has this process's last heartbeat
  bool heartbeats_ended = false;       // the heartbeat thread has ended
  std::string own_failure;             // this process's report that it ends, as text; or ""
  std::atomic<double> last_answer{0};  // when the store last answered
  std::thread heartbeat_thread, store_thread;

  // watch.cc
  void run_heartbeats();
  void heartbeat_loop();
  void watch_store();
  void check_ranks();
  void check_arrivals(double started);
  void read_heartbeats();
  void begin_wait(WaitFor what);
  void end_wait();
  std::vector<std::string> keys() const;

  // endings.cc
  void linger() const;
  void end_process(const FailureReport& failure);
  [[noreturn]] void store_lost(const std::string& why);
  bool nothing_is_lost();
  [[noreturn]] void end_with(const std::string& line);
};

}  // namespace bv
