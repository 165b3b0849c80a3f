// ckpt/best follows from the rows of metrics. A process may have been killed before it wrote
// ckpt/best; these functions make it agree with the rows again.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lib/ckpt/best_checkpoint.h"
#include "lib/train/selection.h"

namespace bv {

// Adds the values in the rows of `metrics_file` to `values`. If `since` is given, a value counts
// only after the step that it returns. Throws Error(Exit::usage) if the file cannot be read.
void add_rows(std::vector<BestValue>& values, const std::string& metrics_file,
              const std::function<int64_t(const WatchedMetric&)>& since = {});

// Returns the best value of the rows if `folder`, the ckpt/best of the metric, has to be written:
// it is missing, belongs to another value or, after a warning, its files are damaged (this reads
// all of them). An intact checkpoint that is better than all rows is kept, with a warning, and
// `best` takes its value.
std::optional<BestPoint> missing_best(BestValue& best, const std::string& folder);

// Calls `write`, which makes `checkpoint` the best one in `folder`, at `point`. Warns if
// `checkpoint` is gone or not complete. Throws Error(Exit::storage) if, after retries, it cannot be
// read or `folder` cannot be written.
void write_missing_best(const std::string& folder, const std::string& checkpoint,
                        const BestPoint& point, const std::function<void()>& write);

}  // namespace bv
