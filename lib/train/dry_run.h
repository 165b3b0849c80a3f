// --dry-run: builds everything that a run needs and reads a few examples of each data set. It then
// runs one training step and one evaluation step, or only their shapes on the meta device if the
// model is too large to run within a second. It writes nothing but the index of the data.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "lib/ckpt/workdir/workdir.h"
#include "lib/config/config.h"
#include "lib/config/duration.h"
#include "lib/model/precision_choice.h"

namespace bv {

struct DryRunOptions {
  bool synthetic = false;       // generated data
  bool full = false;            // runs the whole batch instead of two examples
  bool accept_changes = false;  // of the config since the workdir's checkpoint
  // Of the run that the summary describes. This process computes alone, on the CPU.
  int ranks = 1;
  c10::Device device = c10::kCPU;
};

struct DryRunSummary {
  std::string model;
  int64_t parameters = 0;
  double macs = 0;  // multiply-accumulates of one example, forward only
  PrecisionChoice precision;
  std::string start;  // where the run would start from, or that nothing is left to train
  RunLength length;
  double epochs = 0, steps_per_epoch = 0;
  int processes = 1;
  int64_t own_examples = 0;   // of each process in a step
  int64_t micro_batches = 1;  // in which it computes them
  double sent_bytes = 0;      // by each process in a step
  double state_bytes = 0;     // of each process: parameters, gradients, optimizer state, averages
  std::vector<std::pair<std::string, int64_t>> evaluators;  // with their numbers of examples
  int64_t checked_examples = 0;
  bool shapes_only = false;  // the model was too large to run
  bool synthetic = false;    // the examples are generated

  std::string text() const;
  nlohmann::ordered_json json() const;
};

// Calls `check`. What it throws becomes a warning: the run may be for a host with a GPU, with more
// memory, or where the workdir can be written.
void warn_of_host(const std::function<void()>& check);

// Checks a run and returns its summary. `workdir` is the run's, or null. Throws whatever the run
// would throw when it starts.
DryRunSummary dry_run(const Config& config, const Workdir* workdir, const DryRunOptions& options);

}  // namespace bv
