// The format of metrics.jsonl, and how a restarted run takes over what an earlier process wrote.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lib/report/history.h"

namespace bv {

// Returns the row as a line with its line feed: {"step": 12, "training_loss": 0.25}
std::string row_text(int64_t step, const Row& row);

// The rows that a restarted run continues with.
struct RestoredRows {
  std::vector<int64_t> steps;  // ascending
  History history;
};
// Returns the rows of `file` up to `last_step` and removes everything else from the file. Damaged
// lines do not affect other rows: of the rows up to `last_step`, the longest sequence with
// ascending steps stays. The original file is then kept, and a warning says where. The file is
// replaced only if there is something to remove. Throws Error(Exit::storage), also if the file
// cannot be read.
RestoredRows restore_rows(const std::string& file, int64_t last_step);

// Calls `each` for every row of the file in turn, except an incomplete last one. Throws
// Error(Exit::usage) if the file cannot be read.
void for_each_row(const std::string& file,
                  const std::function<void(int64_t step, const Row&)>& each);

// Returns the step of the last whole row of the file; nullopt if there is none. Throws
// Error(Exit::usage) if the file cannot be read.
std::optional<int64_t> last_row_step(const std::string& file);

}  // namespace bv
