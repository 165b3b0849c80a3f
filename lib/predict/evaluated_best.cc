#include "lib/predict/evaluated_best.h"

#include <set>

#include "lib/ckpt/best_checkpoint.h"
#include "lib/ckpt/checkpoint_folder.h"
#include "lib/ckpt/read_checkpoint.h"
#include "lib/report/log.h"
#include "lib/train/best_rows.h"
#include "lib/train/start.h"
#include "lib/util/file.h"
#include "lib/util/text.h"

namespace bv {

EvaluatedBest::EvaluatedBest(const Workdir& run, const std::vector<BestSeries>& series,
                             const std::string& metrics_file, const EvaluatedCheckpoints& done)
    : run_(run), series_(series) {
  check_best(series_, run_);
  for (const BestSeries& each : series_) values_.emplace_back(each.watched);
  add_rows(values_, metrics_file);
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
  const auto point = missing_best(best, folder);
  if (!point) return;
  const std::string checkpoint = run_.ckpt().step(point->step);
  write_missing_best(folder, checkpoint, *point, [&] {
    const auto identity = EvaluatedCheckpoints::identity(checkpoint);
    if (!identity || !done.contains(point->step, *identity))
      throw Error(Exit::usage, checkpoint, "no longer exists");
    verify_checkpoint(checkpoint);
    write_best(folder, checkpoint, *point);
  });
}

void EvaluatedBest::hold(int64_t step) {
  not_held_.reset();
  if (series_.empty()) return;
  const std::string checkpoint = run_.ckpt().step(step);
  try {
    retries_([&] {
      try {
        hold_checkpoint(held(), checkpoint);
      } catch (const Error& error) {
        if (file_exists(checkpoint)) throw;
        throw Error(Exit::usage, checkpoint, "no longer exists");  // do not try again
      }
    });
  } catch (const Error& error) {
    if (error.code() == Exit::storage) not_held_ = error;
    log::warn("{}; {}", error.what(),
              not_held_ ? "if it is the best checkpoint, this is tried again after its evaluation"
                        : "it cannot become the best checkpoint");
  }
}

// Writes ckpt/best from the held checkpoint. A start of the run may delete the unfinished folder,
// once. Then this tries again, as after a failure of the disk.
void EvaluatedBest::write(const std::string& folder, const std::string& identity,
                          const BestPoint& point) {
  if (not_held_) hold(point.step);
  if (not_held_) throw *not_held_;
  const auto held_one = EvaluatedCheckpoints::identity(held());
  if (!held_one || !EvaluatedCheckpoints::is_same(*held_one, identity))
    throw Error(Exit::usage, run_.ckpt().step(point.step), "no longer exists");
  retries_([&] { write_best(folder, held(), point); });
  log::info("[{}] best checkpoint: {}", point.step, folder);
}

void EvaluatedBest::take(int64_t step, const std::string& identity, const Row& row) {
  for (size_t i = 0; i < series_.size(); ++i) {
    const WatchedMetric& watched = series_[i].watched;
    const auto value = evaluated_value(row, watched);
    if (!value) throw Error(Exit::usage, watched.place, missing_metric(watched, row));
    if (step <= values_[i].last_step() || !values_[i].add(step, *value)) continue;
    const std::string folder = run_.ckpt().best(series_[i].name);
    try {
      write(folder, identity, {watched.metric, watched.higher_is_better, step, *value});
    } catch (const Error& error) {
      if (error.code() == Exit::storage) throw;
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
    log::warn("{} belongs to step {}, whose row is replaced; moved it to {}", folder, found->step,
              aside);
  }
}

}  // namespace bv
