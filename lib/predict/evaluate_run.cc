#include "lib/predict/evaluate_run.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "lib/ckpt/checkpointer.h"
#include "lib/ckpt/workdir/workdir.h"
#include "lib/device/large_blocks.h"
#include "lib/predict/evaluated_best.h"
#include "lib/predict/evaluated_checkpoints.h"
#include "lib/predict/evaluation_folders.h"
#include "lib/predict/replaced_rows.h"
#include "lib/predict/row_evaluators.h"
#include "lib/predict/run_watch.h"
#include "lib/report/log.h"
#include "lib/report/metric_file.h"
#include "lib/report/metric_writer.h"
#include "lib/report/muted.h"
#include "lib/train/start.h"
#include "lib/util/crash_point.h"
#include "lib/util/file.h"
#include "lib/util/signals.h"
#include "lib/util/text.h"

namespace bv {
namespace {

constexpr std::chrono::seconds kWait{1};  // between two checks for new checkpoints

constexpr int64_t kAllStay = std::numeric_limits<int64_t>::max();

// TensorBoard drops earlier processes' points from the step `forgotten` on. There are no rows for
// these steps.
MetricWriter open_rows(const Workdir& output, const std::string& run, int64_t forgotten) {
  MetricWriter::Options options;
  options.metrics_file = output.metrics();
  options.tensorboard_dir = output.tensorboard();
  options.report_file = output.report();
  options.curve_file = output.learning_curve();
  options.title = run + ", evaluated by bvtrain eval";
  options.first_step = forgotten;
  return MetricWriter(std::move(options));
}

struct FoundCheckpoint {
  int64_t step = 0;
  std::string identity;
};

// Returns the checkpoints that have no row yet, by ascending step.
std::vector<FoundCheckpoint> list_new(const CkptFolder& ckpt, EvaluatedCheckpoints& done) {
  std::vector<FoundCheckpoint> found;
  for (const int64_t step : ckpt.steps()) {
    if (const auto identity = done.new_identity(step, ckpt.step(step)))
      found.push_back({step, *identity});
  }
  return found;
}

bool holds_run(const Workdir& workdir) {
  return may_exist(workdir.config()) || may_exist(workdir.ckpt().path());
}

// Throws if the folder has rows of another run.
void check_run(const Workdir& rows, const EvaluatedCheckpoints& done, const RunOfRows& run) {
  if (!done.run() || is_same_run(*done.run(), run)) return;
  throw Error(Exit::usage, rows.dir(),
              fmt::format("has rows of the run in {}; choose another folder with --output, or move "
                          "this one away",
                          done.run()->workdir));
}

// The folder of the run `now` has rows of the run `before`. Returns whether the two may be the same
// run, whose folder was moved or copied.
bool may_have_moved(const RunOfRows& before, const RunOfRows& now) {
  return before.first_started.empty() || before.first_started == now.first_started ||
         !file_exists(before.workdir);
}

// Returns whether --config or --set names the evaluator.
bool names_evaluator(const EvaluateRequest& request, const std::string& name) {
  const std::string key = "evals." + name;
  return !request.config.empty() ||
         std::ranges::any_of(request.overrides, [&](const Override& each) {
           return each.key == "evals" || each.key == key || each.key.starts_with(key + ".");
         });
}

void check_request(const EvaluateRequest& request, const std::string& output) {
  check_overrides(request);
  refuse_remote_path(request.workdir);
  if (!checkpoint_of_averages(request.workdir).empty()) {
    throw Error(
        Exit::usage, request.workdir,
        "':ema' names averaged weights, for model_init; evaluators with `ema: true` measure "
        "them");
  }
  if (!request.follow && !file_exists(request.workdir))
    throw Error(Exit::usage, request.workdir, "no such folder");
  std::error_code none;
  if (std::filesystem::equivalent(output, request.workdir, none))
    throw Error(Exit::usage, "--output " + output, "is the folder of the run itself");
  check_holds_no_run(output);
  if (!request.config.empty()) load_config(request.config, {});  // before waiting
}

// Evaluates the checkpoints of a run and writes their rows.
class NewCheckpoints {
 public:
  NewCheckpoints(const EvaluateRequest& request, const std::string& output)
      : request_(request), run_(request.workdir), rows_(output) {
    rows_.claim(/*patience=*/0, "--output");
    std::set<int64_t> steps;
    for_each_row(rows_.metrics(), [&](int64_t step, const Row&) { steps.insert(step); });
    done_.emplace(rows_.evaluated(), std::move(steps));
    const RunOfRows run = run_of_rows(run_.dir());
    if (!in_run() || (done_->run() && !may_have_moved(*done_->run(), run)))
      check_run(rows_, *done_, run);
    done_->set_run(run);
  }

  NewRows evaluate() {
    if (request_.follow && run_.ckpt().steps().empty())
      log::info("Waiting for the first checkpoint in {}", run_.ckpt().path());
    int64_t evaluated = evaluate(list_new(run_.ckpt(), *done_));
    if (evaluated == 0) check_rows();
    while (true) {
      const std::vector<FoundCheckpoint> found = await_new();
      if (found.empty()) break;
      const int64_t more = evaluate(found);
      evaluated += more;
      if (more > 0)
        watch_.begin();
      else if (request_.follow)
        watch_.check_goes_on();  // a checkpoint may stay unreadable
    }
    if (metrics_) metrics_->close();
    if (done_->has_skipped() && done_->last_row() < 0)
      throw Error(Exit::usage, run_.ckpt().path(), "no checkpoint here could be evaluated");
    const std::vector<int64_t> steps = run_.ckpt().steps();
    const bool any = done_->last_row() >= 0;
    if (!any && steps.empty() && run_finished())
      throw Error(Exit::usage, run_.dir(), "the run has finished and has no checkpoint");
    const bool all =
        !done_->has_skipped() &&
        std::all_of(steps.begin(), steps.end(), [&](int64_t step) { return done_->has_row(step); });
    return {evaluated, all, any};
  }

 private:
  // Waits for checkpoints that have no row and returns them. Returns none if the run has finished,
  // or immediately unless request.follow.
  std::vector<FoundCheckpoint> await_new() {
    while (true) {
      const bool finished = run_finished();  // read before the list: no checkpoint comes later
      std::vector<FoundCheckpoint> found = list_new(run_.ckpt(), *done_);
      if (!found.empty() || finished || !request_.follow) return found;
      check_there();
      watch_.check_goes_on();
      poll_signals();
      std::this_thread::sleep_for(kWait);
    }
  }

  // With --follow, a disk that cannot be read is tried again.
  bool run_finished() {
    try {
      return request_.follow ? watch_.finished() : run_.finished().has_value();
    } catch (const Error&) {
      if (!request_.follow) throw;
      return false;
    }
  }

  // Throws if the files of the run were there and are gone, or if the folder of the rows is gone.
  void check_there() {
    const bool had_run = std::exchange(has_run_, holds_run(run_));
    if (had_run && !has_run_) {
      const log::Muted quiet;
      metrics_.reset();  // its files may be gone, too
      throw Error(Exit::peer, run_.dir(),
                  "the run is gone: its files were moved or deleted, so no checkpoint follows");
    }
    rows_.folder()->require_there();
  }

  // With nothing to evaluate: throws if the request is wrong, or if the rows are not those that it
  // asks for. Makes ckpt/best agree with the rows.
  void check_rows() {
    const std::optional<Restored> newest = Checkpointer::peek(request_.workdir);
    if (!newest) return;
    const TensorsFromMalloc memory;
    if (!request_.config.empty() || !request_.overrides.empty()) build(*newest);
    if (done_->last_row() < 0) return;
    const std::string evals = evaluators_of(request_, *newest);
    if (!fits_row_evaluators(rows_, evals)) {
      build(*newest);
      add_to_row_evaluators(rows_, evaluators_->evals(), &evaluators_->config());
    }
    check_complete(evals, kAllStay);
    if (!in_run() || !keeps_best(request_, *newest)) return;
    build(*newest);
    if (!best_) best_.emplace(run_, best_series(), rows_.metrics(), *done_);  // it mends ckpt/best
  }

  // Throws if the rows before the step `end` lack an evaluator that the request names. Warns if
  // they lack another one: a restart of the run may have added it.
  void check_complete(const std::string& evals, int64_t end) {
    const std::vector<std::string> names = evaluators_without_rows(rows_, evals);
    const std::set<int64_t>& rows = done_->rows();
    const auto past = rows.lower_bound(end);
    if (names.empty() || past == rows.begin()) return;
    const auto named = std::ranges::find_if(
        names, [&](const std::string& name) { return names_evaluator(request_, name); });
    const int64_t first = *rows.begin(), last = *std::prev(past);
    const auto what = [&](const std::string& evaluators) {
      return fmt::format(
          "{} no metrics of {}; to measure them, choose another folder with --output",
          first == last ? fmt::format("the row of step {} has", first)
                        : fmt::format("the rows of steps {} .. {} have", first, last),
          evaluators);
    };
    if (named != names.end()) throw Error(Exit::usage, rows_.dir(), what("'" + *named + "'"));
    log::warn("{}: {}", rows_.dir(), what(short_list(names)));
  }

  // Returns the number of checkpoints that were evaluated. Stops after a checkpoint whose
  // evaluation has dropped rows, because the checkpoints of the dropped rows must be evaluated
  // again.
  int64_t evaluate(const std::vector<FoundCheckpoint>& found) {
    if (!found.empty() && request_.config.empty()) newest_ = Checkpointer::peek(run_.ckpt().path());
    int64_t evaluated = 0;
    for (const FoundCheckpoint& each : found) {
      const size_t rows = done_->rows().size();
      if (!evaluate(each)) continue;
      ++evaluated;
      if (done_->rows().size() <= rows) break;
    }
    return evaluated;
  }

  // Returns false, after a warning, if the checkpoint cannot be used.
  bool evaluate(const FoundCheckpoint& found) {
    const TensorsFromMalloc memory;
    has_run_ = true;
    if (best_) best_->hold(found.step);  // before it is read: the run may delete it at any time
    const std::optional<Restored> checkpoint = read(found);
    if (!checkpoint) return false;
    const std::optional<int64_t> discarded = replaced_.first_discarded(*done_, *checkpoint);
    if (!discarded && !replaced_.can_replace(*done_, found.step)) {
      done_->skip(found.step, found.identity);
      return false;
    }
    build(*checkpoint);
    // The run may have started after this process.
    if (done_->run()->first_started.empty()) done_->set_run(run_of_rows(run_.dir()));
    std::string evals = evaluators_->evals();
    if (done_->last_row() >= 0) {
      const std::string all = add_to_row_evaluators(rows_, evals, &evaluators_->config());
      check_complete(evals, std::min(found.step, discarded.value_or(found.step)));
      evals = all;
    }
    if (read_file_if_any(rows_.config()) != evals) write_file_atomically(rows_.config(), evals);
    if (discarded || found.step <= done_->last_row()) drop_rows(found.step, discarded);
    if (!best_) {
      best_.emplace(run_, best_series(), rows_.metrics(), *done_);
      best_->hold(found.step);
    }
    // Not before: an evaluation that adds no row leaves no new TensorBoard file.
    if (!metrics_) metrics_.emplace(open_rows(rows_, request_.workdir, kAllStay));
    metrics_->begin_row(found.step);
    evaluators_->run(*checkpoint, *metrics_, &rows_);
    best_->take(found.step, found.identity, metrics_->row());
    crash_point("evaluate.row");
    metrics_->write_report();
    metrics_->end_row();
    metrics_->flush();
    const std::vector<RunStart> starts = starts_of(*checkpoint);
    done_->add(found.step, found.identity,
               starts.empty() ? std::nullopt : std::optional(starts.back().time));
    return true;
  }

  // Returns the weights of a checkpoint. nullopt, with a warning, if it cannot be used.
  std::optional<Restored> read(const FoundCheckpoint& found) {
    const std::string folder = run_.ckpt().step(found.step);
    try {
      return Checkpointer::load(folder, {.wanted = weights_only});
    } catch (const Error& error) {
      const bool exists = file_exists(folder), disk_fails = error.code() == Exit::storage;
      // The checkpoint need not be damaged. --follow tries it again as long as the run continues.
      if (exists && disk_fails && (!request_.follow || run_finished())) throw;
      if (exists)
        log::warn("skipped: {}", error.what());
      else
        log::warn("skipped: the run has deleted {}", folder);
      if (!exists || !disk_fails) done_->skip(found.step, found.identity);
      return std::nullopt;
    }
  }

  // Drops the rows of the step `found` and of later ones, because `found` is evaluated now: either
  // its checkpoint could not be read before, or the run went back or started over. In the second
  // case also drops the rows from `discarded` on, which ReplacedRows::first_discarded() gives.
  void drop_rows(int64_t found, std::optional<int64_t> discarded) {
    const int64_t step = std::min(found, discarded.value_or(found));
    if (done_->has_row(found) || !discarded) {
      log::warn("{}: step {} {}; the rows from {} on are replaced", rows_.metrics(), found,
                done_->has_row(found) ? "was saved again after its evaluation"
                                      : "is evaluated after later steps",
                step == found ? "there" : fmt::format("step {}", step));
    } else {
      log::warn(
          "{}: the run trained step {} again, so its row is out of date; the rows from step {} on "
          "are replaced",
          rows_.metrics(), *discarded, step);
    }
    EvaluatedBest::put_aside_from(run_, best_series(), step);  // first: it follows from the rows
    done_->remove_from(step);  // before the rows: a later start then drops what is left of them
    if (metrics_) metrics_->close();
    restore_rows(rows_.metrics(), step - 1);
    metrics_.emplace(open_rows(rows_, request_.workdir, step));
    best_.reset();
  }

  // Returns whether the rows are in the folder of the run. Such rows move with the folder.
  bool in_run() const {
    std::error_code none;
    return std::filesystem::equivalent(rows_.dir(), run_.evaluation(), none);
  }

  // Two processes must not keep the same ckpt/best, and only one at a time writes to the folder of
  // the run.
  std::vector<BestSeries> best_series() const {
    if (in_run()) return evaluators_->best();
    if (has_best_by_eval(evaluators_->config()))
      log::info("The rows go to {}, so no best checkpoint is kept; leave out --output to keep it",
                rows_.dir());
    return {};
  }

  // A restart of the run may have changed its config, or moved it to another machine. All
  // checkpoints that have no row yet are measured with the evaluators of the newest one, because
  // the rows of a folder cannot be those of different evaluators.
  void build(const Restored& checkpoint) {
    const auto config_of = [](const Restored& from) {
      return from.meta.value("config", std::string());
    };
    const std::string config = config_of(checkpoint);
    const bool own = !newest_ || config_of(*newest_) == config;
    const Restored& with_evals = own ? checkpoint : *newest_;
    const std::string text =
        config + checkpoint.meta.value("precision", std::string()) + config_of(with_evals);
    if (!evaluators_ || text != built_from_) {
      if (!in_run()) {
        const std::string place = checkpoint.folder + "/" + kManifestName;
        check_rows_outside_data(rows_.dir(), parse_config_json(run_config(checkpoint), place));
      }
      evaluators_ = std::make_unique<RunEvaluators>(request_, checkpoint, with_evals, in_run());
      best_.reset();
    }
    built_from_ = text;
  }

  const EvaluateRequest& request_;
  const Workdir run_;
  RunWatch watch_{run_, request_.patience};
  bool has_run_ = holds_run(run_);  // when it was last seen
  Workdir rows_;
  ReplacedRows replaced_{run_.ckpt(), rows_.metrics()};
  std::optional<EvaluatedCheckpoints> done_;
  std::optional<MetricWriter> metrics_;
  std::optional<Restored> newest_;  // without tensors; its evaluators measure all checkpoints
  std::string built_from_;
  std::unique_ptr<RunEvaluators> evaluators_;
  std::optional<EvaluatedBest> best_;  // rebuilt when the evaluators or earlier rows change
};

}  // namespace

Evaluation evaluate_checkpoint(const EvaluateRequest& request, const std::string& checkpoint) {
  check_overrides(request);
  const Restored restored = Checkpointer::load(checkpoint, {.wanted = weights_only});
  MetricWriter metrics({});
  metrics.begin_row(restored.step);
  RunEvaluators(request, restored, restored, /*with_best=*/false).run(restored, metrics, nullptr);
  return {restored.step, metrics.row()};
}

NewRows evaluate_new_checkpoints(const EvaluateRequest& request, const std::string& output) {
  check_request(request, output);
  return NewCheckpoints(request, output).evaluate();
}

}  // namespace bv
