// What has changed between a run and the checkpoint that it continues: the config and the examples
// (data_changes.h). Either may change without the other.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "lib/ckpt/restored.h"
#include "lib/ckpt/workdir/workdir.h"
#include "lib/config/changes.h"
#include "lib/train/recipe.h"

namespace bv {

// How the config of a run differs from that of the checkpoint that it continues.
struct ConfigChanges {
  std::vector<ConfigChange> harmless, changing;  // `changing` keys change the training
  std::set<std::string> added;                   // evaluators that the checkpoint's config lacks
  std::set<std::string> follow_loss;  // evaluators that measure with the loss, if that has changed

  bool none() const { return harmless.empty() && changing.empty(); }
  // Returns one line for each change: "lr: 0.001 -> 0.01".
  std::vector<std::string> lines() const;
  void report() const;  // logs them
  // Returns the evaluators that measure something else now, such as other data or another loss.
  // Also returns added evaluators: an earlier evaluator may have had the same name or metric.
  std::vector<std::string> changed_evaluators() const;
  // Throws Error(Exit::usage) if a change affects the training, unless `accept`: then warns if
  // there are other examples although the config names the same data. `finished`: the run has
  // nothing left to do.
  void require(bool accept, const Workdir& workdir, bool finished) const;
};
// Returns whether `early_stop` or the length of the run has changed, so that a run that stopped
// early may continue.
bool changes_end(const ConfigChanges& changes);
// Compares the recipe's config and data with the metadata of its checkpoint. `data` is
// data_summary(recipe).
ConfigChanges changes_since(const Restored& checkpoint, const Recipe& recipe,
                            const nlohmann::json& data);

}  // namespace bv
