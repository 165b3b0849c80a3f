// Reads what the files of a workdir, other than its checkpoints, say about earlier starts of the
// run.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "lib/ckpt/workdir/workdir.h"
#include "lib/config/config.h"
#include "lib/report/metric_summary.h"

namespace bv {

// The member of run.json that records whether the run has committed a checkpoint in its workdir.
inline constexpr const char* kSavedKey = "has_saved";
// Sets this member, if there is a run.json. Throws Error(Exit::storage).
void note_saved(const std::string& run_json);

// Returns what DONE holds if other files confirm that the run has finished. One of these must
// exist: a checkpoint of that step; a row of metrics of that step or a later one; or, if there is
// no checkpoint at all, any row of metrics. Otherwise returns nullopt, and logs a warning if there
// is a DONE. Throws Error(Exit::storage) if the disk cannot be read.
std::optional<Workdir::Done> finished_at(const Workdir& workdir);
// Throws Error(Exit::usage) if the workdir has no checkpoint although the run has saved one, or
// although its folder ckpt/ is missing. Starting from scratch would delete the run's metric rows.
void require_checkpoints(const Workdir& workdir);

// What run.json records about earlier launches of the run.
struct EarlierStarts {
  int64_t count = 0;
  std::string first_started;  // empty: not known
  nlohmann::json config_changes = nlohmann::json::array();
  // What `nan: rollback` has done: {"step", "to", "examples", "reason"} each.
  nlohmann::json rollbacks = nlohmann::json::array();
};
// Reads run.json. If it is damaged, logs a warning, keeps a copy of it (put_aside()) and returns
// the same as without the file. Throws Error(Exit::storage).
EarlierStarts read_earlier_starts(const std::string& run_json);
// The member of run.json that names the evaluator of each metric whose prefix several evaluators
// share.
inline constexpr const char* kMetricOwnersKey = "metric_owners";
// Returns what the names of the metrics of the evaluator `name` begin with. `evals`: the part of a
// run's config.
std::string metric_prefix(const Config& evals, const std::string& name);
// Returns the last restart that changed or added each evaluator; empty if no restart did.
// `config_changes`: the member of this name in run.json. `config`: the run's config, which has the
// prefixes of the evaluators' metrics. `owners`: the member kMetricOwnersKey of run.json.
MeasuredAnew changed_metrics(const nlohmann::json& config_changes, const Config& config,
                             const std::map<std::string, std::string>& owners);
// Returns run.json, and changes nothing; an empty object if it is missing or damaged.
nlohmann::json peek_run_json(const std::string& run_json);
// Returns the rollbacks of run.json, and changes nothing; none if the file is missing or damaged.
nlohmann::json peek_rollbacks(const std::string& run_json);

}  // namespace bv
