// What the ranks of a run settle together before the first step: that they read the same config and
// data, their classes, and who writes to the workdir.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lib/ckpt/workdir/workdir.h"
#include "lib/distributed/group.h"
#include "lib/train/trainer/trainer.h"

namespace bv {

// Throws Error(Exit::usage) unless all ranks have the same `version` of the program. They must call
// this before any other collective operation, because those may differ between versions.
void check_versions(Group& group, const std::string& version);

// Throws Error(Exit::usage) unless all ranks read the same config and data: they would otherwise
// train different models together. Warns if their devices differ. `data`: data_summary(recipe); not
// used in a group of one. `writes`: there is a workdir.
void check_ranks(Group& group, const Recipe& recipe, const nlohmann::json& data, bool writes);

// Returns rank 0's class names on every rank: other ranks may have no access to the workdir.
ClassNames agreed_classes(Group& group, const ClassNames& mine);

// What rank 0 found in the workdir before it read the data.
struct FoundRun {
  std::vector<int64_t> steps = {};          // of the checkpoints
  std::optional<Restored> checkpoint = {};  // what the run continues
};

// Rank 0 claims the workdir. Returns on every rank whether the run there has already finished. Rank
// 0 first reads the weights that the run starts from, which may take long. `found` is for rank 0;
// `restarted`: the launcher has started the ranks again. Throws Error(Exit::peer) if another
// command has saved checkpoints since `found`, what Workdir::claim(), Trainer::load_start(),
// Trainer::check_changes() and the checks of the folder throw, and Stopped after a signal.
bool claim_workdir(Workdir& workdir, Trainer& trainer, const FoundRun& found, const Recipe& recipe,
                   const nlohmann::json& data, Group& group, bool restarted);

}  // namespace bv
