// One run of a comparison: its config, its metrics and its progress.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lib/compare/metric_scan.h"
#include "lib/compare/run_config.h"
#include "lib/compare/run_status.h"

namespace bv {

struct RunRecord {
  std::string workdir;  // as it was given or found
  std::string name;     // the workdir without the folders that all workdirs begin with
  FlatConfig config;    // without the seed and the number of the fold; with the values that a
                        // restart replaced ("lr until step 100") and the precision that `auto`
                        // chose
  // The keys of `config` whose values are the defaults of their plug-ins or of the machine.
  std::set<std::string> defaults = {};
  std::string seed;  // as JSON; "" if the config has none
  // Of the program that started the run last: "0.1.0 (1c5c5c8f2d10)"; "" if it is not known.
  std::string version;
  std::string fold;  // of cross-validation: "2/5"; "" if there is none
  RunStatus status;
  // Also the series that `bvtrain eval` has written to eval/, if the run itself has not measured
  // the metric, or not at its end.
  MetricScan metrics;

  // Whether the run has finished, but this metric of an evaluator was not measured at its end: a
  // restart has removed the evaluator, or `bvtrain eval` has not evaluated the last checkpoint.
  bool is_outdated(const std::string& metric) const;
};

// Reads a run. Appends to `warnings` one line for each kind of damage in its rows. Returns nullopt
// if it has no config.yaml, or an unreadable one: it cannot be compared then, and `warnings`
// reports that.
std::optional<RunRecord> read_run(const std::string& workdir, bool with_curves,
                                  std::vector<std::string>& warnings);

}  // namespace bv
