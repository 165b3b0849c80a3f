// The lock of a workdir: it keeps two runs from writing into the same folder.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace bv {

// Holds flock(2) on the file .lock of a folder. The kernel releases it however the holder dies.
//
// Some file systems apply flock() only within one host, for example Lustre with `localflock` and
// NFS with `local_lock`. A process on another machine then gets the lock as well. So the holder
// writes a line with its name and a counter into the file every few seconds:
//   - A process that gets the lock but finds another machine's line first watches whether that line
//     still changes.
//   - Before it writes a line, the holder checks that the file still has its own. If it finds the
//     line of another process, it exits with code 2. Either both started at the same time, or this
//     process was paused for so long that the other one took over.
class WorkdirLock {
 public:
  static constexpr double kBeat = 5;      // seconds between two lines; BVTRAIN_LOCK_BEAT changes it
  static constexpr int kSilentBeats = 3;  // a holder that writes no line for so long is gone

  // Takes the lock of the folder `dir`, which must exist, with the file `lock` in it. While another
  // process has the lock, waits up to `patience` seconds. Logs a line if it takes over from a
  // process that did not release the lock. Returns nullopt if the file was deleted meanwhile.
  // `option` is the one that names the folder.
  // Throws Error(Exit::usage) "D: error: the workdir is in use by process P on host H; ...",
  // Error(Exit::storage), and Stopped if a signal comes while it watches another machine.
  static std::optional<WorkdirLock> take(const std::string& dir, const std::string& lock,
                                         double patience, std::string_view option = "--workdir");
  // Returns which process holds the lock, as a string that names its machine too; "" if none does,
  // or if there is no such file here. Does not take the lock.
  static std::string holder(const std::string& lock);
  // Returns whether another process has the lock, as far as this host sees: where flock() holds per
  // host, a process on another machine may have it. Holds the lock for a moment, so only a process
  // that is about to take it may call this.
  static bool is_taken(const std::string& lock);
  // Returns the seconds between two lines: kBeat, unless the environment changes it.
  static double beat();
  WorkdirLock(WorkdirLock&&) noexcept;
  ~WorkdirLock();  // removes the line and releases the lock

  // Writes no more lines, because the file is about to be deleted. The lock stays.
  void stop_beat();

 private:
  struct Held;
  explicit WorkdirLock(std::unique_ptr<Held> held);

  std::unique_ptr<Held> held_;
};

// Watches, without taking the lock, whether any process holds it, on this host or another one.
class LockWatch {
 public:
  explicit LockWatch(std::string lock) : lock_(std::move(lock)) {}

  // Returns whether the file names a process whose line has changed within kSilentBeats beats. A
  // line counts as changed when this object sees it for the first time.
  bool is_held();

 private:
  const std::string lock_;
  std::string line_;                               // when it was last read
  std::chrono::steady_clock::time_point since_{};  // when that line was first seen
};

}  // namespace bv
