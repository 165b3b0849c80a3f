// The examples of a run, compared with those that a checkpoint of it was trained and evaluated on.
// They can change although the config does not, for example if files were added.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lib/ckpt/checkpointer.h"
#include "lib/config/changes.h"
#include "lib/distributed/group.h"
#include "lib/train/recipe.h"

namespace bv {

// Returns what a checkpoint's metadata records about the recipe's data, as `data`.
nlohmann::json data_summary(const Recipe& recipe);
// Returns how the examples of two summaries differ: one change of "input.data" or
// "evals.<name>.data" for each data set.
std::vector<ConfigChange> data_changes(const nlohmann::json& before, const nlohmann::json& now);

// Returns whether this is a change by data_changes().
bool changes_examples(const ConfigChange& change);
// Returns the warning about such a change.
std::string other_examples_text(const ConfigChange& change);

// The examples that an evaluator has now.
struct EvalExamples {
  int64_t count = 0;
  uint64_t content = 0;  // Dataset::content()
};
// Returns a warning for each evaluator that has other examples than in the run of the checkpoint,
// although `config` has the run's keys for its data. Knows nothing about older checkpoints.
std::vector<std::string> other_examples(const Restored& checkpoint, const Config& config,
                                        const std::map<std::string, EvalExamples>& evals);

// Compares what data_summary() has returned on each rank. Returns an Error(Exit::usage) for each
// data set in which ranks differ from rank 0: "evals.val.data: error: ranks 1, 2 have 59 examples,
// rank 0 has 60 examples; ...".
std::vector<Error> data_disagreements(const std::vector<nlohmann::json>& summaries);
// Throws them, on every rank. Ranks with other data would train on examples that no rank should
// have, and in evaluations wait for batches that others do not have. All ranks must call this.
void check_same_data(Group& group, const Recipe& recipe);

}  // namespace bv
