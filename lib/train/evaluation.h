// The evaluators of a run: what `evals.<name>` says besides the evaluator's own keys (reference
// section 13.1), and running them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/config/duration.h"
#include "lib/evals/evaluator.h"

namespace bv {

struct EvalJob {
  std::string name;
  std::string pred;         // prediction function of the task
  std::string prefix;       // of its metrics' names
  bool skip_first = false;  // not in the initial evaluations
  bool ema = false;         // evaluates the averaged weights
  std::optional<Due> due;   // absent: only in the initial evaluations
  std::unique_ptr<Evaluator> evaluator;
};

struct EvalDefaults {
  int64_t batch_size = 0;
  int threads = 1;
  uint64_t seed = 0;
  DataEnv data;
  Group* group = nullptr;                // as in EvalEnv
  bool has_ema = false;                  // the run keeps averaged weights
  std::vector<std::string> predictions;  // of the task
};

// All entries of `evals`, in alphabetical order (the order they run in). Opens no data. Problems
// are recorded with the config.
std::vector<EvalJob> read_evals(const Config& evals, const EvalDefaults& defaults,
                                const RunLength& length);

}  // namespace bv
