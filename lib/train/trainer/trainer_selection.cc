// After the evaluators of a step: whether it is the best one so far, and whether the run has
// stopped improving (the keys `best` and `early_stop`).
//
// The best value so far follows from the rows of metrics.jsonl alone, which a restart reads again.
// So it is the same with and without restarts, and after a kill at any point.
#include <algorithm>

#include "lib/ckpt/checkpoint_folder.h"
#include "lib/report/log.h"
#include "lib/report/metric_file.h"
#include "lib/train/trainer/trainer.h"
#include "lib/util/file.h"
#include "lib/util/text.h"

namespace bv {
namespace {

std::optional<double> value_in(const Row& row, const std::string& metric) {
  const auto found = std::find_if(row.begin(), row.end(),
                                  [&](const auto& entry) { return entry.first == metric; });
  return found == row.end() ? std::nullopt : std::optional(found->second);
}

std::string better_side_text(const WatchedMetric& watched) {
  return fmt::format("{} {}", watched.higher_is_better ? "highest" : "lowest", watched.metric);
}

// Throws unless `metric` is in the row, now that its evaluator has run.
void require_metric(const WatchedMetric& watched, const Row& row) {
  if (value_in(row, watched.metric)) return;
  std::vector<std::string> names;
  for (const auto& [name, value] : row) {
    if (name.starts_with(watched.prefix)) names.push_back(name);
  }
  const std::string near = nearest(watched.metric, names);
  throw Error(
      Exit::usage, watched.place,
      fmt::format("{}: no such metric '{}'{}; the evaluator '{}' measures {}", watched.key,
                  watched.metric, near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near),
                  watched.evaluator, join(names, ", ")));
}

nlohmann::json to_json(const BestValue& value) {
  if (!value.best()) return nullptr;
  return {value.best()->step, value.best()->value, value.last_step()};
}

}  // namespace

// Takes over what the rows of earlier starts tell. Only rank 0 can read them.
void Trainer::open_selection() {
  const Selection& selection = recipe_.selection;
  for (const BestSeries& series : selection.best) watched_.emplace_back(series.watched);
  if (selection.early_stop)
    watched_.emplace_back(selection.early_stop->watched, selection.early_stop->min_delta);
  if (watched_.empty()) return;
  if (resumed_here_ && workdir_ && is_rank0()) {
    for_each_row(workdir_->metrics(), [this](int64_t step, const Row& row) {
      for (BestValue& each : watched_) {
        if (const auto value = value_in(row, each.watched().metric)) each.add(step, *value);
      }
    });
  }
  nlohmann::json mine = nlohmann::json::array();
  for (const BestValue& each : watched_) mine.push_back(to_json(each));
  const auto all = nlohmann::json::parse(group_.gather_text(mine.dump(), "best values").at(0));
  for (size_t i = 0; i < watched_.size() && !is_rank0(); ++i) {
    if (all[i].is_array()) watched_[i].restore({all[i][0], all[i][1]}, all[i][2]);
  }
  if (!workdir_ || !is_rank0()) return;
  for (size_t i = 0; i < selection.best.size(); ++i) mend_best(selection.best[i], watched_[i]);
}

// Makes ckpt/best agree with the rows: a run may have been killed before it came to write it, or
// have gone back to an older checkpoint.
void Trainer::mend_best(const BestSeries& series, const BestValue& best) {
  const WatchedMetric& watched = series.watched;
  const std::string folder = workdir_->ckpt().best(series.name);
  const std::optional<BestPoint> found = read_best(folder);
  if (found &&
      (found->metric != watched.metric || found->higher_is_better != watched.higher_is_better)) {
    throw Error(
        Exit::usage, watched.place,
        fmt::format("{}: {} is the checkpoint with the {}; give the {} a `name` of its "
                    "own, or remove the folder",
                    watched.key, folder, better_side_text({found->metric, found->higher_is_better}),
                    better_side_text(watched)));
  }
  log::info("{} will be the checkpoint with the {}", folder, better_side_text(watched));
  std::optional<BestPoint> expected;
  if (best.best()) {
    expected = {watched.metric, watched.higher_is_better, best.best()->step, best.best()->value};
  }
  if (found == expected) return;
  if (found && found->step > first_step_) {
    log::warn("{} is of step {}, but the run continues from step {}; it is removed", folder,
              found->step, first_step_);
    delete_folder(folder);
  }
  if (!expected) return;
  if (file_exists(workdir_->ckpt().step(expected->step))) {
    checkpointer_->mark_best(series.name, *expected);
  } else {
    log::warn(
        "the checkpoint of step {}, which has the {} ({:g}), is gone; {} is written when a "
        "later step is better",
        expected->step, better_side_text(watched), expected->value, folder);
  }
}

// Keeps the checkpoint of this step as the best one if it is. `ran` are the evaluators that have
// run since the step's checkpoint was saved, if it was.
void Trainer::update_best(int64_t step, const std::set<std::string>& ran) {
  const std::vector<BestSeries>& series = recipe_.selection.best;
  std::vector<size_t> better;
  for (size_t i = 0; i < watched_.size(); ++i) {
    const WatchedMetric& watched = watched_[i].watched();
    if (ran.contains(watched.evaluator)) require_metric(watched, metrics_->row());
    const auto value = value_in(metrics_->row(), watched.metric);
    if (!value || step <= watched_[i].last_step()) continue;
    if (watched_[i].add(step, *value) && i < series.size()) better.push_back(i);
  }
  if (better.empty() || !workdir_) return;
  if (saved_step_ != step) save(step, /*keep=*/false);
  for (const size_t i : better) {
    const WatchedMetric& watched = series[i].watched;
    if (is_rank0()) {
      checkpointer_->mark_best(series[i].name, {watched.metric, watched.higher_is_better, step,
                                                watched_[i].best()->value});
    }
  }
}

// Returns whether the metric of early_stop has not improved for too long, and says so.
bool Trainer::stops_early() {
  const auto& rule = recipe_.selection.early_stop;
  if (!rule) return false;
  const BestValue& watched = watched_.back();
  const int64_t best = watched.best() ? watched.best()->step : 0;
  const int64_t last = watched.last_step();
  if (last < best + rule->patience || last >= total_steps_) return false;
  stopped_early_ =
      watched.best()
          ? fmt::format("stopped early: {} has not improved on {:g} of step {}",
                        rule->watched.metric, watched.best()->value, human_count(best))
          : fmt::format("stopped early: {} was never a finite number", rule->watched.metric);
  return true;
}

// Runs the evaluators that would also run after the last step, but saves the state first.
void Trainer::finish_early(int64_t step, const std::set<std::string>& ran) {
  for (const EvalJob& job : recipe_.evals) {
    if (job.due && !ran.contains(job.name)) due_evals_.insert(job.name);
  }
  const std::set<std::string> rest = due_evals_;
  if (saved_step_ != step && workdir_) save(step, /*keep=*/true);
  run_due_evals(step);
  update_best(step, rest);
}

}  // namespace bv
