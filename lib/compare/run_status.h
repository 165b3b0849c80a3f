// The progress of a run, and how it ended.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lib/ckpt/workdir/workdir.h"
#include "lib/compare/metric_scan.h"
#include "lib/config/config.h"

namespace bv {

struct RunStatus {
  // unfinished: it is still training, was stopped or was killed.
  enum class Kind { finished, unfinished, diverged, failed };
  Kind kind = Kind::unfinished;
  int64_t step = 0;              // the last one that was measured or saved
  std::optional<int64_t> total;  // the length of the run in steps, if it is known
  int code = 0;                  // the exit code, if it failed

  bool finished() const { return kind == Kind::finished; }
  // Returns "finished", "unfinished at step 40 of 60" or "failed with code 5 at step 40 of 60".
  std::string text() const;
};

const char* kind_name(RunStatus::Kind kind);

// Returns the config_hash of result.json, which the last start of the run wrote when it ended; ""
// if there is none.
std::string last_config_hash(const Workdir& workdir);

// Returns the exit code with which the last start of the run failed. 0 if it has not failed: it is
// still running, has finished, or was stopped by a signal and can be continued.
int failure_code(const Workdir& workdir);

// Returns whether a signal or a time limit has stopped the last start of the run, so that it may be
// continued.
bool was_stopped(const Workdir& workdir);

// `config` is the run's resolved config. This marks the keys of its durations as read.
RunStatus read_status(const Workdir& workdir, const Config& config, const MetricScan& metrics);

}  // namespace bv
