// Changes of the config at a restart. run.json lists them, and a checkpoint records how many of the
// entries apply to it. A start that is killed before its first checkpoint has changed nothing: the
// next start drops its entry and what it has left in the workdir.
#include <algorithm>

#include "lib/ckpt/file_writer.h"
#include "lib/report/metric_file.h"
#include "lib/report/skipped_examples.h"
#include "lib/train/trainer/trainer.h"
#include "lib/util/file.h"

namespace bv {

void Trainer::check_changes(const std::optional<Restored>& checkpoint, bool finished) {
  if (!checkpoint || !workdir_) return;
  changes_ = changes_since(*checkpoint, recipe_, options_.data_summary);
  changes_.report();
  changes_.require(options_.accept_changes, *workdir_, finished);
}

// Finds out which entries of run.json do not apply to the checkpoint, and what is new now. The
// checkpoint of check_changes() may be damaged, and `nan: rollback` may have returned to another
// one.
void Trainer::take_changes(const Restored& from) {
  changes_ = changes_since(from, recipe_, options_.data_summary);
  nlohmann::json& all = earlier_.config_changes;
  const auto saved = from.meta.value("config_changes", all.size());  // not in older checkpoints
  while (all.size() > saved) {
    dropped_changes_.push_back(all.back());
    all.erase(all.size() - 1);
  }
}

// Removes what the starts of the dropped entries have left. A process may be killed meanwhile: the
// entries stay in run.json until this is done.
void Trainer::undo_dropped_changes() const {
  const std::vector<std::string> evaluators = changes_.changed_evaluators();
  bool other_row = false;
  for (const nlohmann::json& dropped : dropped_changes_) {  // the last one first
    const int64_t step = dropped.at("step");
    restore_config(step);
    const bool measured_otherwise =
        dropped.value("evaluators", std::vector<std::string>()) != evaluators ||
        (!evaluators.empty() && dropped.at("changes") != nlohmann::json(changes_.lines()));
    other_row |= step == first_step_ && measured_otherwise;
  }
  // Such a start may have finished the row of the checkpoint's step with evaluators that measure
  // something else, and have listed broken examples of other data. If the checkpoint names
  // evaluators to run, finish_interrupted_row() runs them again.
  if (!other_row || first_step_ == 0 || !interrupted_evals_ || interrupted_evals_->empty()) return;
  restore_rows(workdir_->metrics(), first_step_ - 1);
  std::set<std::string> again;
  for (const std::string& name : *interrupted_evals_) again.insert("evals." + name);
  remove_skipped(workdir_->skipped(), first_step_, again);
}

// Makes the config before the changes at `step` config.yaml again, unless other changes at the same
// step are listed.
void Trainer::restore_config(int64_t step) const {
  const auto& all = earlier_.config_changes;
  const bool listed = std::any_of(all.begin(), all.end(), [&](const nlohmann::json& restart) {
    return restart.at("step") == step;
  });
  const std::string old = workdir_->config_until(step);
  if (!listed && file_exists(old)) rename_durably(old, workdir_->config());
}

// Keeps the config of the finished steps, if this run continues with another one.
void Trainer::keep_old_config() const {
  const std::string old = workdir_->config_until(first_step_);
  if (!resumed_here_ || changes_.none() || file_exists(old) || !file_exists(workdir_->config()))
    return;
  write_file_atomically(old, read_file(workdir_->config()));
}

// Takes back the changes of a start that has neither trained nor measured anything with them. For
// example, a run that stopped early may be given more steps, but no more patience. If evaluators
// have changed, ckpt/best may have been put aside: the next start then drops the entry.
void Trainer::forget_unused_changes() {
  if (!workdir_ || changes_.none() || !changes_.changed_evaluators().empty()) return;
  if (done_step_ > first_step_ || !metrics_->had_row(first_step_)) return;
  changes_ = {};
  restore_config(first_step_);
  write_run_json(start_);
  note_changes();
}

// Lists the changes in the report.
void Trainer::note_changes() {
  std::string text;
  for (const nlohmann::json& restart : config_changes_) {
    for (const nlohmann::json& line : restart.at("changes")) {
      text += fmt::format("{}from step {}: {}", text.empty() ? "" : "\n",
                          restart.at("step").get<int64_t>(), line.get<std::string>());
    }
  }
  metrics_->note("Changed config", text);
}

}  // namespace bv
