// Decides after the evaluators of a step whether it is the best one so far, and whether the run has
// stopped improving (the keys `best` and `early_stop`).
//
// The best value so far depends only on the rows of metrics.jsonl, which a restart reads again. So
// it is the same with and without restarts, and after a kill at any point. Rank 0 decides for all
// ranks: only it has the rows of earlier starts.
#include <algorithm>

#include "lib/ckpt/read_checkpoint.h"
#include "lib/report/log.h"
#include "lib/train/best_rows.h"
#include "lib/train/trainer/trainer.h"
#include "lib/util/json_text.h"
#include "lib/util/text.h"

namespace bv {

// Returns the last step at which a restart changed or added an evaluator of the metric, or -1.
// Values up to that step cannot be compared with later ones.
int64_t Trainer::measured_anew(const WatchedMetric& watched) const {
  int64_t step = -1;
  for (const nlohmann::json& restart : config_changes_) {
    for (const nlohmann::json& name : restart.value("evaluators", nlohmann::json::array())) {
      if (watched.evaluators.contains(name.get<std::string>())) step = restart.at("step");
    }
  }
  return step;
}

// Restores the best values from the rows of earlier launches. Only rank 0 can read these rows.
void Trainer::open_selection() {
  const Selection& selection = recipe_.selection;
  if (!is_rank0()) return;
  for (const BestSeries& series : selection.best) watched_.emplace_back(series.watched);
  if (selection.early_stop)
    watched_.emplace_back(selection.early_stop->watched, selection.early_stop->min_delta);
  ran_.resize(watched_.size());
  found_.resize(watched_.size());
  if (!workdir_) return;
  if (resumed_here_) {
    add_rows(watched_, workdir_->metrics(),
             [this](const WatchedMetric& watched) { return measured_anew(watched); });
  }
  for (size_t i = 0; i < selection.best.size(); ++i) mend_best(selection.best[i], watched_[i]);
}

// Updates ckpt/best to match the rows: a run may have been killed before it wrote ckpt/best, or may
// have returned to an older checkpoint.
void Trainer::mend_best(const BestSeries& series, BestValue& best) {
  const WatchedMetric& watched = series.watched;
  const CkptFolder ckpt = workdir_->ckpt();
  const std::string folder = ckpt.best(series.name);
  log::info("{} will be the checkpoint with the {} {}", folder,
            watched.higher_is_better ? "highest" : "lowest", watched.metric);
  if (const auto found = read_best(folder)) {
    const bool of_the_future = found->step > first_step_;
    if (of_the_future || found->step <= measured_anew(watched)) {
      const std::string aside = put_best_aside(folder, found->step);
      log::warn("{} belongs to step {}, but {}; it is {} now", folder, found->step,
                of_the_future
                    ? fmt::format("the run continues from step {}", first_step_)
                    : fmt::format("the evaluator of {} was changed or added later", watched.metric),
                aside);
    }
  }
  const auto point = missing_best(best, folder);
  if (!point) return;
  // A restart with a changed evaluator may have moved this checkpoint away. A later restart has
  // then undone the change.
  if (take_best_back(folder, *point)) {
    log::info("{} is that of step {} again, the best so far", folder, point->step);
    return;
  }
  const std::string checkpoint = ckpt.step(point->step);
  write_missing_best(folder, checkpoint, *point, [&] {
    verify_checkpoint(checkpoint);
    checkpointer_->mark_best(series.name, *point);
  });
}

// The part of select() that runs on rank 0.
Trainer::Choice Trainer::choose(int64_t step, const std::set<std::string>& ran) {
  Choice choice;
  for (size_t i = 0; i < watched_.size(); ++i) {
    BestValue& each = watched_[i];
    const WatchedMetric& watched = each.watched();
    ran_[i].insert(ran.begin(), ran.end());
    const bool comparable = step > measured_anew(watched);
    const auto value = comparable ? evaluated_value(metrics_->row(), watched) : std::nullopt;
    const bool all_ran = std::includes(ran_[i].begin(), ran_[i].end(), watched.evaluators.begin(),
                                       watched.evaluators.end());
    found_[i] = found_[i] || value;
    // Also after a restart: another version of bvtrain may have given the metric another name.
    if (comparable && all_ran && !found_[i]) {
      choice.fault = missing_metric(watched, metrics_->row());
      choice.fault_in = static_cast<int64_t>(i);
      return choice;
    }
    if (!value || step <= each.last_step()) continue;
    if (each.add(step, *value) && i < recipe_.selection.best.size())
      choice.better.push_back(static_cast<int64_t>(i));
  }
  choice.ends = reason_to_end();
  return choice;
}

// Returns why early_stop ends the run now; an empty string if it does not.
std::string Trainer::reason_to_end() const {
  const auto& rule = recipe_.selection.early_stop;
  if (!rule) return "";
  const BestValue& watched = watched_.back();
  const int64_t last = watched.last_step();
  const int64_t since = watched.best() ? watched.best()->step : watched.first_step();
  if (last < 0 || last < since + rule->patience || last >= total_steps_) return "";
  return watched.best()
             ? fmt::format("stopped early: {} has not improved on {:g} of step {}",
                           rule->watched.metric, watched.best()->value, human_count(since))
             : fmt::format("stopped early: {} was never a finite number", rule->watched.metric);
}

// Evaluates the row of this step, after the evaluators `ran`. If the step is the best one, keeps
// its checkpoint, and saves it first if necessary. Returns whether the run ends here, and sets
// stopped_early_ to the reason. All ranks call it together and follow rank 0's decision.
bool Trainer::select(int64_t step, const std::set<std::string>& ran) {
  const Selection& selection = recipe_.selection;
  if (selection.best.empty() && !selection.early_stop) return false;
  nlohmann::json agreed;
  if (is_rank0()) {
    const Choice mine = choose(step, ran);
    agreed = {{"better", mine.better}, {"ends", mine.ends}, {"fault", mine.fault}};
    if (!mine.fault.empty()) agreed["place"] = mine.fault_in;
  }
  agreed = nlohmann::json::parse(group_.broadcast_text(json_text(agreed), "selection"));
  const std::vector<int64_t> better = agreed.at("better");
  const std::string fault = agreed.at("fault");
  if (workdir_ && (!better.empty() || !fault.empty()) && saved_step_ != step)
    save(step, Save::always);
  if (!fault.empty()) {
    if (checkpointer_) checkpointer_->drain();  // no step is lost
    const auto i = agreed.at("place").get<size_t>();
    throw Error(Exit::usage,
                i < selection.best.size() ? selection.best[i].watched.place
                                          : selection.early_stop->watched.place,
                fault);
  }
  for (const int64_t i : better) {
    if (!workdir_ || !is_rank0()) continue;
    const WatchedMetric& watched = selection.best[i].watched;
    checkpointer_->mark_best(selection.best[i].name, {watched.metric, watched.higher_is_better,
                                                      step, watched_[i].best()->value});
  }
  stopped_early_ = agreed.at("ends");
  return !stopped_early_.empty();
}

// Saves the state as the last step would, unless that is done. Then runs the evaluators that would
// also run after the last step.
void Trainer::finish_early(int64_t step, const std::set<std::string>& ran) {
  for (const EvalJob& job : recipe_.evals) {
    if (job.due && !ran.contains(job.name)) due_evals_.insert(job.name);
  }
  const std::set<std::string> rest = due_evals_;
  const std::optional<Save> kind = plan_step(total_steps_).save;
  const bool saved = kind == Save::keep ? kept_step_ == step : saved_step_ == step;
  if (kind && !saved) save(step, *kind);
  run_due_evals(step);
  select(step, rest);
}

}  // namespace bv
