// Whether more checkpoints of a run are to be expected, for `bvtrain eval --follow`.
#pragma once

#include <optional>

#include "lib/ckpt/workdir/workdir.h"
#include "lib/ckpt/workdir/workdir_lock.h"

namespace bv {

// While a process holds the run's lock, this class ignores DONE and result.json. Either they are
// left from an earlier start that the process continues, or the process is about to end.
class RunWatch {
 public:
  // `run` must outlive this object. `patience`: the seconds in which a run that has failed or was
  // killed may be started again.
  RunWatch(const Workdir& run, double patience)
      : run_(run), patience_(patience), lock_(run.lock()) {}

  // Returns whether the run has finished. Throws Error(Exit::storage) if the disk cannot be read.
  bool finished() { return run_.finished() && !lock_.is_held(); }
  // Begins to wait: the patience counts from now on.
  void begin() { failed_since_.reset(); }
  // Throws Error(Exit::peer) if no more checkpoints are expected. Call it about once a second.
  void check_goes_on();

 private:
  std::optional<int> failed_with();

  const Workdir& run_;
  const double patience_;
  LockWatch lock_;
  std::optional<double> failed_since_;  // monotonic_seconds()
};

}  // namespace bv
