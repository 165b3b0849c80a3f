// The entries of `evals`: the keys that all evaluators have, as in big_vision's
// evaluators/common.py, `from_config`. An evaluator's own keys are read in lib/evals. Trainer runs
// the jobs.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/config/duration.h"
#include "lib/evals/evaluator.h"
#include "lib/input/prepare_data.h"
#include "lib/report/row.h"

namespace bv {

// Begins the name of the metric with the seconds that an evaluator took. Every evaluator that has
// finished has one in the row of its step.
inline const std::string kEvalSeconds = "z/secs/eval/";

struct EvalJob {
  std::string name;           // the key in `evals`
  std::string pred;           // the task's prediction function
  std::string prefix;         // of the metrics' names
  bool skip_first = false;    // does not run before the first step
  bool ema = false;           // evaluates the averaged weights
  bool skips_errors = false;  // may skip broken examples, and has the metric `errors`
  Tta tta;
  std::optional<Due> due;  // log_steps, log_seconds, ...; absent: only a run without steps runs it
  std::unique_ptr<Evaluator> evaluator;
  bool sound = true;  // no problem was found while it was read, and it can be probed
};

// What the run gives to all its evaluators.
struct EvalDefaults {
  EvalEnv env;           // without a name
  std::string task;      // of the run; empty if it is not known
  bool has_ema = false;  // the run keeps averaged weights
  // Whether num_classes fits the training data. If not, labels seem to be out of range, so the
  // evaluators are not sound: only their data is opened.
  bool classes_known = true;
  // The prediction functions of the task; empty if there is no task.
  std::vector<PredictionFunction> predictions;
};

// Returns the names of the metrics that the evaluator may write, without its prefix; nullopt if
// only its run can tell.
std::optional<std::vector<std::string>> written_metrics(const EvalJob& job);

// The evaluator of each metric, by the metric's whole name.
using MetricOwners = std::map<std::string, std::string>;
// Registers a metric of an evaluator. Returns why the evaluator must not write it, or "". If
// another evaluator or the training wrote a metric of the same name, a row would hold only one of
// the values.
std::string claim_metric(const std::string& metric, const std::string& evaluator,
                         MetricOwners& owners);

// Returns the owners of the metrics of evaluators that share their prefix with others, as far as
// written_metrics() knows them. The prefix alone does not tell whose metric it is.
MetricOwners owners_of_shared_prefixes(const std::vector<EvalJob>& jobs);

// Runs the evaluator. Passes its metrics to `measure` with their whole names and returns them. Sets
// context.left_out to count the examples that it leaves out, as the metric `errors`, and to call
// the function that was there. Throws Error(Exit::usage) if another evaluator or the training has a
// metric of the same name.
Row run_evaluator(const EvalJob& job, EvalContext context, MetricOwners& owners,
                  const Measure& measure);

// Whether `evals` itself has the keys of an evaluator: its name was forgotten.
bool lacks_name(const Config& evals);

// Returns all entries of `evals` in alphabetical order, which is also the order in which they run.
// Records problems with the config. These include files of the same name, and metrics of the same
// name, as far as evaluators know the names before they run. Opens no data except that of
// evaluators that are not sound.
std::vector<EvalJob> read_evals(const Config& evals, const EvalDefaults& defaults,
                                const RunLength& length);

}  // namespace bv
