#include "lib/predict/evaluated_best.h"

#include <set>

#include "lib/ckpt/best_checkpoint.h"
#include "lib/ckpt/checkpoint_folder.h"
#include "lib/ckpt/read_checkpoint.h"
#include "lib/report/log.h"
#include "lib/report/metric_direction.h"
#include "lib/report/metric_file.h"
#include "lib/train/start.h"
#include "lib/util/file.h"
#include "lib/util/text.h"

namespace bv {

EvaluatedBest::EvaluatedBest(const Workdir& run, const std::vector<BestSeries>& series,
                             const std::string& metrics_file, const EvaluatedCheckpoints& done)
    : run_(run), series_(series) {
  check_best(series_, run_);
  for (const BestSeries& each : series_) values_.emplace_back(each.watched);
  for_each_row(metrics_file, [this](int64_t step, const Row& row) {
    for (BestValue& each : values_) {
      if (const auto value = evaluated_value(row, each.watched())) each.add(step, *value);
    }
  });
  std::vector<std::string> folders;
  for (const BestSeries& each : series_) folders.push_back(run_.ckpt().best(each.name));
  restore_replaced(run_.ckpt(), std::set(folders.begin(), folders.end()));
  for (size_t i = 0; i < series_.size(); ++i) mend(values_[i], folders[i], done);
}

EvaluatedBest::~EvaluatedBest() {
  if (!series_.empty() && file_exists(held())) delete_folder(held());
}

// Not in ckpt/, where a start of the run deletes the remains of killed saves.
std::string EvaluatedBest::held() const { return run_.evaluation() + "/.held"; }

// Makes ckpt/best agree with the rows.
void EvaluatedBest::mend(BestValue& best, const std::string& folder,
                         const EvaluatedCheckpoints& done) {
  const WatchedMetric& watched = best.watched();
  log::info("{} will be the checkpoint with the {} {}", folder,
            watched.higher_is_better ? "highest" : "lowest", watched.metric);
  const auto found = read_best(folder);
  const auto& rows = best.best();
  if (found && (!rows || is_better(found->value, rows->value, watched.higher_is_better))) {
    log::warn(
        "{} is of step {} with {} {:g}, which has no row; it stays until a later step is better",
        folder, found->step, watched.metric, found->value);
    best.restore({found->step, found->value});
    return;
  }
  if (!rows || (found && found->step == rows->step && found->value == rows->value)) return;
  const std::string checkpoint = run_.ckpt().step(rows->step);
  try {
    const auto identity = EvaluatedCheckpoints::identity(checkpoint);
    if (!identity || !done.contains(rows->step, *identity))
      throw Error(Exit::usage, checkpoint, "no longer exists");
    verify_checkpoint(checkpoint);
    write_best(folder, checkpoint,
               {watched.metric, watched.higher_is_better, rows->step, rows->value});
  } catch (const Error& error) {
    if (error.code() == Exit::storage && file_exists(checkpoint))
      throw error.needs_place() ? Error(Exit::storage, checkpoint, error.message()) : error;
    log::warn("no complete checkpoint is left of step {}, the best so far with {} {:g}; {} {}",
              rows->step, watched.metric, rows->value, folder,
              found ? fmt::format("stays that of step {} until a later step is better", found->step)
                    : "is written when a later step is better");
  }
}

void EvaluatedBest::hold(int64_t step) {
  if (series_.empty()) return;
  try {
    hold_checkpoint(held(), run_.ckpt().step(step));
  } catch (const Error& error) {
    log::warn("{}; it cannot become the best checkpoint", error.what());
  }
}

// Writes ckpt/best from the held checkpoint. A start of the run may delete the unfinished folder,
// once.
void EvaluatedBest::write(const std::string& folder, const BestPoint& point) const {
  constexpr int kMostAttempts = 3;
  for (int attempt = 1;; ++attempt) {
    try {
      return write_best(folder, held(), point);
    } catch (const Error&) {
      if (attempt == kMostAttempts) throw;
    }
  }
}

void EvaluatedBest::take(int64_t step, const std::string& identity, const Row& row) {
  for (size_t i = 0; i < series_.size(); ++i) {
    const WatchedMetric& watched = series_[i].watched;
    const auto value = evaluated_value(row, watched);
    if (!value) throw Error(Exit::usage, watched.place, missing_metric(watched, row));
    if (step <= values_[i].last_step() || !values_[i].add(step, *value)) continue;
    const std::string folder = run_.ckpt().best(series_[i].name);
    try {
      if (EvaluatedCheckpoints::identity(held()) != identity)
        throw Error(Exit::storage, run_.ckpt().step(step), "no longer exists");
      write(folder, {watched.metric, watched.higher_is_better, step, *value});
      log::info("[{}] best checkpoint: {}", step, folder);
    } catch (const Error& error) {
      log::warn("{} stays as it is, although step {} has the best {} so far, {:g}: {}", folder,
                step, watched.metric, *value, error.what());
    }
  }
  if (!series_.empty()) delete_folder(held());
}

void EvaluatedBest::put_aside_from(const Workdir& run, const std::vector<BestSeries>& series,
                                   int64_t step) {
  for (const BestSeries& each : series) {
    const std::string folder = run.ckpt().best(each.name);
    const auto found = read_best(folder);
    if (!found || found->step < step) continue;
    const std::string aside = put_best_aside(folder, found->step);
    log::warn("{} is of step {}, whose row is replaced; moved it to {}", folder, found->step,
              aside);
  }
}

}  // namespace bv
