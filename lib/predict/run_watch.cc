#include "lib/predict/run_watch.h"

#include <fmt/format.h>

#include <string>

#include "lib/compare/run_status.h"
#include "lib/predict/evaluation_folders.h"
#include "lib/report/chrono.h"
#include "lib/util/error.h"

namespace bv {

// Returns the code with which the run has failed; 0 if it was killed: it has begun and has not
// ended, but no process works on it. Returns nullopt for any other run. One that a signal or a time
// limit has stopped after its first step began will be continued, perhaps after days in a queue.
std::optional<int> RunWatch::failed_with() {
  if (lock_.is_held()) return std::nullopt;
  if (const int code = failure_code(run_); code != 0) return code;
  bool begun = false;
  for (const std::string& path : {run_.lock(), run_.config(), run_.ckpt().path()})
    begun = begun || may_exist(path);
  const bool ended = may_exist(run_.done()) || was_stopped(run_);
  return begun && !ended ? std::optional(0) : std::nullopt;
}

// After a failure that may be temporary, a launcher, cron or slurm usually restarts the run.
void RunWatch::check_goes_on() {
  const std::optional<int> code = failed_with();
  if (!code) return failed_since_.reset();
  const auto fail = [&](const std::string& why) { throw Error(Exit::peer, run_.dir(), why); };
  if (*code == static_cast<int>(Exit::usage) || *code == static_cast<int>(Exit::diverged))
    fail(fmt::format("the run has failed with code {}", *code));
  const double now = monotonic_seconds();
  if (!failed_since_) failed_since_ = now;
  if (now - *failed_since_ < patience_) return;
  fail(*code == 0
           ? fmt::format("the run has not finished, but no process has worked on it for {:.0f} s",
                         patience_)
           : fmt::format("the run failed with code {} and was not continued within {:.0f} s", *code,
                         patience_));
}

}  // namespace bv
