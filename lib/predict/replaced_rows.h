// Which rows of `bvtrain eval` the evaluation of a checkpoint replaces. A valid row whose
// checkpoint is gone could not be measured again, so it stays.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "lib/ckpt/checkpointer.h"
#include "lib/ckpt/workdir/workdir.h"
#include "lib/predict/evaluated_checkpoints.h"

namespace bv {

class ReplacedRows {
 public:
  // `ckpt` has the checkpoints of the run, and `file` the rows.
  ReplacedRows(CkptFolder ckpt, std::string file)
      : ckpt_(std::move(ckpt)), file_(std::move(file)) {}

  // Returns the step of the first row whose weights the run has discarded: after the row was
  // measured, the run was started again at that step or an earlier one, and that start has led to
  // `found`. Skips a row before `found` whose checkpoint still exists: without the row, that
  // checkpoint would be evaluated and discarded again each time. Returns nullopt if there is no
  // such row. Also returns nullopt, after a warning, if dropping the rows from there on would lose
  // a valid row whose checkpoint is gone.
  std::optional<int64_t> first_discarded(const EvaluatedCheckpoints& done, const Restored& found);

  // Rows are in the order of steps, so a step that is evaluated late replaces the rows of later
  // steps. Returns false, after a warning, if that would lose a row whose checkpoint is gone.
  bool can_replace(const EvaluatedCheckpoints& done, int64_t step) const;

 private:
  const CkptFolder ckpt_;
  const std::string file_;
  int64_t kept_row_ = -1;  // a row of discarded weights that stays
};

}  // namespace bv
