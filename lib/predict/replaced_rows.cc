#include "lib/predict/replaced_rows.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "lib/predict/evaluation_folders.h"
#include "lib/report/log.h"
#include "lib/train/start.h"

namespace bv {

std::optional<int64_t> ReplacedRows::first_discarded(const EvaluatedCheckpoints& done,
                                                     const Restored& found) {
  const std::vector<RunStart> starts = starts_of(found);
  const auto is_discarded = [&](int64_t row) {
    const std::optional<int64_t> started = done.started(row);
    if (!started || (row < found.step && may_exist(ckpt_.step(row)))) return false;
    return std::ranges::any_of(
        starts, [&](const RunStart& start) { return row >= start.from && *started < start.time; });
  };
  const auto end = done.rows().end();
  const auto first = std::find_if(done.rows().begin(), end, is_discarded);
  if (first == end) return std::nullopt;
  const auto lost = std::find_if(first, end, [&](int64_t row) {
    return row != found.step && !is_discarded(row) && !may_exist(ckpt_.step(row));
  });
  if (lost == end) return *first;
  if (std::exchange(kept_row_, *first) != *first) {
    log::warn(
        "{}: the run trained step {} again, so its row is out of date; it stays, because "
        "replacing it would also remove the row of step {}, whose checkpoint is gone",
        file_, *first, *lost);
  }
  return std::nullopt;
}

bool ReplacedRows::can_replace(const EvaluatedCheckpoints& done, int64_t step) const {
  if (done.has_row(step)) return true;  // the run went back and saves the later steps again
  const auto is_lost = [&](int64_t later) { return later > step && !may_exist(ckpt_.step(later)); };
  const auto lost = std::ranges::find_if(done.rows(), is_lost);
  if (lost == done.rows().end()) return true;
  log::warn(
      "skipped: step {} could not be read before, and the checkpoint of the later row {} is "
      "gone; to evaluate this step, choose another --output",
      step, *lost);
  return false;
}

}  // namespace bv
