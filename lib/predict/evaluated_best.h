// The best checkpoints that `bvtrain eval` keeps: those of `best` with `by: eval`.
//
// As in the training, the best value follows from the rows of metrics alone, ties keep the earlier
// step, and a value that is not finite never counts. The run may delete a checkpoint while it is
// evaluated, so its files are kept by links or copies until its row is known.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/ckpt/best_checkpoint.h"
#include "lib/ckpt/workdir/workdir.h"
#include "lib/predict/evaluated_checkpoints.h"
#include "lib/report/row.h"
#include "lib/report/storage_retries.h"
#include "lib/train/selection.h"
#include "lib/util/error.h"

namespace bv {

class EvaluatedBest {
 public:
  // Keeps the `series` in the workdir `run`, which must outlive this object. Reads the rows in
  // `metrics_file` and updates ckpt/best to match them, because an earlier process may have been
  // killed before it wrote ckpt/best. `done` records which checkpoints the rows describe. Throws
  // Error(Exit::usage) if ckpt/best belongs to another metric.
  EvaluatedBest(const Workdir& run, const std::vector<BestSeries>& series,
                const std::string& metrics_file, const EvaluatedCheckpoints& done);
  ~EvaluatedBest();  // releases the held checkpoint
  EvaluatedBest(const EvaluatedBest&) = delete;

  // Holds the checkpoint of a step that is about to be evaluated. Does nothing without series. If
  // the disk fails, take() tries again.
  void hold(int64_t step);
  // Checks the metrics of the checkpoint that is held, and makes it the best one if they are the
  // best so far. `identity` is that of the checkpoint that was evaluated
  // (EvaluatedCheckpoints::identity()). Throws Error(Exit::usage) if the evaluators have not
  // measured a metric of a series, and Error(Exit::storage) if the best one cannot be written: its
  // row must then not be written either.
  void take(int64_t step, const std::string& identity, const Row& row);

  // Moves the best checkpoints of `step` and of later ones aside: their rows are replaced.
  static void put_aside_from(const Workdir& run, const std::vector<BestSeries>& series,
                             int64_t step);

 private:
  void mend(BestValue& best, const std::string& folder, const EvaluatedCheckpoints& done);
  void write(const std::string& folder, const std::string& identity, const BestPoint& point);
  std::string held() const;  // the folder for the checkpoint that is held

  const Workdir& run_;
  const std::vector<BestSeries> series_;
  std::vector<BestValue> values_;  // one of each series
  StorageRetries retries_;         // of hold() and take()
  std::optional<Error> not_held_;  // why the disk did not let hold() hold the checkpoint
};

}  // namespace bv
