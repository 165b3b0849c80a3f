// Compares the examples of a run with those on which a checkpoint of the run was trained and
// evaluated. The examples can change although the config does not, for example if files were added.
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

// Returns what a checkpoint's metadata records about the recipe's data, under the key `data`. It
// hashes all names and labels, which takes about a second for ten million examples: a run calls it
// once, when it starts.
nlohmann::json data_summary(const Recipe& recipe);
// Returns how the examples of two summaries differ: one change of input.data or evals.<name>.data
// for each data set.
std::vector<ConfigChange> data_changes(const nlohmann::json& before, const nlohmann::json& now);

// Returns whether data_changes() made this change, rather than a comparison of config keys.
bool changes_examples(const ConfigChange& change);
// `data` is a change that data_changes() has returned. Returns whether `change`, of a config key,
// selects other examples for that data set. Such keys are input.quarantine, input.sample,
// input.<part>.data.split, evals.few.datasets, and evals.pairs.file with the names of its arrays.
bool chooses_examples(const ConfigChange& change, const ConfigChange& data);
// Returns the warning about a change that data_changes() made.
std::string other_examples_text(const ConfigChange& change);

// The examples that an evaluator has now.
struct EvalExamples {
  int64_t count = 0;     // Evaluator::examples()
  uint64_t content = 0;  // Evaluator::content()
};
// Returns a warning for each evaluator whose examples differ from those in the run of the
// checkpoint, although no key that chooses them differs between the run's config and `config`.
// Returns no warning if the run used synthetic data, or if the checkpoint was written by an older
// version that does not record the examples.
std::vector<std::string> other_examples(const Restored& checkpoint, const Config& config,
                                        const std::map<std::string, EvalExamples>& evals);

// Compares what data_summary() has returned on each rank. Returns an Error(Exit::usage) for each
// data set in which ranks differ from rank 0: "evals.val.data: error: ranks 1, 2 have 59 examples,
// rank 0 has 60 examples; ...".
std::vector<Error> data_disagreements(const std::vector<nlohmann::json>& summaries);
// Throws the errors of data_disagreements(), if there are any, on every rank. Without this check, a
// rank with other data would train on wrong examples, and in an evaluation some ranks would wait
// for batches that the other ranks do not have. All ranks must call this, each with its own
// data_summary().
void check_same_data(Group& group, const nlohmann::json& summary);

}  // namespace bv
