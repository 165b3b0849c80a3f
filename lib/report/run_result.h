// How a run ended: the file result.json of its workdir, and the last lines on the terminal.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/report/metric_summary.h"
#include "lib/util/error.h"

namespace bv {

struct RunResult {
  Exit code = Exit::ok;
  std::string reason;                                 // one line
  int64_t first_step = 0, step = 0, total_steps = 0;  // `step` is the last one that was finished
  const MetricSummary* metrics = nullptr;             // null: nothing was measured

  // Of this start of the program: UTC, and seconds.
  std::string started, ended;
  double wall_seconds = 0, training_seconds = 0;
  // Of all starts of the run.
  double total_wall_seconds = 0, total_training_seconds = 0;
  std::optional<double> images_per_second;

  std::string config_hash;
  uint64_t seed = 0;
  std::string precision;         // what the run computed in: "float32" or "bf16"
  std::string precision_config;  // what the config says: "auto", ...
  std::string host, device;      // "cpu", or the name of the GPU
  int processes = 1;
  std::string version;
  // Absolute paths; empty: there is no such file.
  std::string workdir, report, checkpoint;
  // The checkpoints of the key `best`, in its order.
  struct Best {
    std::string metric;
    int64_t step = 0;
    double value = 0;
    std::string checkpoint;  // absolute path
  };
  std::vector<Best> best_checkpoints;
  // The other checkpoints of that key whose metric was measured, but never finite.
  struct NoBest {
    std::string metric, checkpoint;
  };
  std::vector<NoBest> no_best;
  int64_t failed_saves = 0;    // checkpoints of this start that could not be written
  int64_t left_out_saves = 0;  // those that were left out, because they were due too often
};

// Returns the text of result.json; docs/command-line.md describes it.
std::string result_json(const RunResult& result);

// Returns the last lines of a run: steps and times, the main metric, the report's path.
std::vector<std::string> closing_lines(const RunResult& result);

// Returns the hash of a config that is given as JSON. It does not depend on the order of keys.
std::string config_hash(const std::string& config_json);

}  // namespace bv
