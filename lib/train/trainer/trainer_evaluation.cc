// Evaluations: those that are due after a step, those before the first step, and those that a run
// had not reached when it died.
#include <optional>
#include <utility>

#include "lib/device/large_blocks.h"
#include "lib/evals/common/predict.h"
#include "lib/report/live_line.h"
#include "lib/report/log.h"
#include "lib/report/trace.h"
#include "lib/train/trainer/paused_chrono.h"
#include "lib/train/trainer/trainer.h"
#include "lib/util/crash_point.h"
#include "lib/util/json_text.h"
#include "lib/util/signals.h"

namespace bv {

// Writes the row of step 0: num_params and the results of the evaluators. A run that starts from
// the last step of another run writes the row of that step.
void Trainer::initial_row() {
  metrics_->begin_row(first_step_);
  measure_skipped();
  int64_t params = 0;
  for (const auto& entry : recipe_.step->params().entries()) params += entry.numel;
  metrics_->measure("num_params", static_cast<double>(params));
  if (!recipe_.evals.empty()) log::note("Running initial or final evals...");
  const bool trains = first_step_ < total_steps_;
  for (const EvalJob& job : recipe_.evals) {
    if (!trains || (job.due && !job.skip_first)) due_evals_.insert(job.name);
    if (trains && !job.due)
      log::info("evals.{} has no interval such as log_steps: only `bvtrain eval` runs it",
                job.name);
  }
  const std::set<std::string> ran = due_evals_;
  run_due_evals(first_step_);
  select(first_step_, ran);
  metrics_->end_row();
}

// A checkpoint is saved before the evaluators of its step run. If the run died in between, the file
// has no row for that step. The checkpoint contains the row's values so far and the names of the
// evaluators that had not run yet, so they run now.
void Trainer::finish_interrupted_row() {
  const int64_t had = is_rank0() && metrics_->had_row(first_step_);
  if (group_.all_max(std::array{had}, "last row").at(0)) return;
  metrics_->begin_row(first_step_);
  for (const auto& [name, value] : interrupted_row_) metrics_->measure(name, value);
  for (EvalJob& job : recipe_.evals) {
    // Older checkpoints do not name them. Then log_steps shows what was due; log_seconds cannot.
    const bool due = interrupted_evals_ ? interrupted_evals_->contains(job.name)
                                        : job.due && (*job.due)(first_step_, agreed_training_now());
    if (due) due_evals_.insert(job.name);
  }
  std::set<std::string> ran = due_evals_;
  run_due_evals(first_step_);
  if (select(first_step_, ran)) {
    ran.merge(evals_in_interrupted_row());
    finish_early(first_step_, ran);
  }
  metrics_->end_row();
}

// Returns the names of the evaluators that had run before the save. All ranks must call it
// together, because only rank 0 has the row.
std::set<std::string> Trainer::evals_in_interrupted_row() {
  std::set<std::string> names;
  for (const auto& [name, value] : interrupted_row_)
    if (name.starts_with(kEvalSeconds)) names.insert(name.substr(kEvalSeconds.size()));
  const nlohmann::json mine = names;
  return nlohmann::json::parse(group_.broadcast_text(json_text(mine), "evaluators"));
}

void Trainer::run_due_evals(int64_t step) {
  if (due_evals_.empty()) return;
  std::optional<TensorsFromMalloc> memory(std::in_place);
  for (EvalJob& job : recipe_.evals) {
    if (due_evals_.contains(job.name)) evaluate(job, step);
  }
  const PausedChrono paused(chrono_);  // returning the memory may take some time
  memory.reset();
}

void Trainer::evaluate(EvalJob& job, int64_t step) {
  const PausedChrono paused(chrono_);
  const Group::Phase phase(group_, "evaluation");
  crash_point(fmt::format("eval.rank{}", group_.rank()));
  const trace::Span span("evaluation ", job.name);
  if (is_rank0())
    log::write_detail(fmt::format("NOTE: {} evaluation...\n{}", job.name, chrono_.note()));
  EvalContext context;
  context.step = step;
  context.group = &recipe_.group;
  context.poll = [this, step, &job] {
    if (is_rank0()) show_progress(step, job.name);
    if (group_.size() == 1) return poll_signals();
    // All ranks must make the same decision.
    const auto code = static_cast<int64_t>(stop_requested());
    const int64_t all = group_.all_max(std::array{code}, "evaluation").at(0);
    if (all != 0) throw Stopped{static_cast<Exit>(all)};
  };
  context.report = workdir_ != nullptr;
  if (workdir_ && is_rank0())
    context.details = [this](EvalDetails details) { metrics_->details(std::move(details)); };
  if (workdir_) {
    context.workdir = workdir_->dir();
    context.check_folder = [folder = workdir_->folder()] { folder->require_there(); };
  }
  context.predict =
      bind_prediction(*recipe_.task, job.pred, *recipe_.model, recipe_.precision, job.tta);
  context.left_out = [&](const std::string& data, int64_t,
                         const std::vector<FailedExample>& failed) {
    for (const FailedExample& each : failed)
      skipped_.add({data, step, each.name, each.reason, each.files});
    metrics_->skipped(skipped_.summaries());
  };
  const Measure measure = [this](std::string_view name, double value) {
    metrics_->measure(name, value);
  };
  Row values;
  const double began = chrono_.now();
  chrono_.time(kEvalSeconds + job.name, [&] {
    const auto weights = job.ema ? recipe_.step->use_ema() : nullptr;
    try {
      values = run_evaluator(job, context, metric_owners_, measure);
    } catch (const Stopped&) {
      throw;
    } catch (...) {
      if (weights) weights->abandon();
      throw;
    }
  });
  log::info("{}",
            evaluation_line(step, job.name, values, chrono_.now() - began, metrics_->summary()));
  metrics_->write_report();
  due_evals_.erase(job.name);
}

}  // namespace bv
