// The lock of a workdir: it keeps two runs from writing into the same folder.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace bv {

// Holds flock(2) on the file .lock of a folder. The kernel releases it however the holder dies.
//
// Some file systems apply flock() only to the processes of one host, for example Lustre with
// `localflock` and NFS with `local_lock`. There a process of another machine gets the lock, too. So
// the holder writes a line with its name and a counter into the file every few seconds:
//   - A process that gets the lock, but finds the line of another machine there, first watches
//     whether that line still changes.
//   - Before each line the holder looks whether the file still has its own. If it has that of
//     another process, the holder ends with exit code 2. Either both have started at the same time,
//     or this one was paused for so long that the other one took over.
class WorkdirLock {
 public:
  static constexpr double kBeat = 5;      // seconds between two lines; BVTRAIN_LOCK_BEAT changes it
  static constexpr int kSilentBeats = 3;  // a holder that writes no line for so long is gone

  // Takes the lock of the folder `dir`, which must exist, with the file `lock` in it. While another
  // process has the lock, waits up to `patience` seconds. Logs a line if it takes over from a
  // process that did not release the lock. Returns nullopt if the file was deleted meanwhile.
  // Throws Error(Exit::usage) "D: error: the workdir is in use by process P on host H; ...",
  // Error(Exit::storage), and Stopped if a signal comes while it watches another machine.
  static std::optional<WorkdirLock> take(const std::string& dir, const std::string& lock,
                                         double patience);
  WorkdirLock(WorkdirLock&&) noexcept;
  ~WorkdirLock();  // removes the line and releases the lock

  // Writes no more lines, because the file is about to be deleted. The lock stays.
  void stop_beat();

 private:
  struct Held;
  explicit WorkdirLock(std::unique_ptr<Held> held);

  std::unique_ptr<Held> held_;
};

}  // namespace bv
