// The format of metrics.jsonl, and how a restarted run takes over what an earlier process wrote.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/report/history.h"

namespace bv {

// Returns the row as a line with its line feed: {"step": 12, "training_loss": 0.25}
std::string row_text(int64_t step, const Row& row);

// Adds the rows of `file` up to `last_step` to `history` and removes everything else from the file.
// The file is replaced only if there is something to remove. Returns the steps of the rows, in
// order. Throws Error(Exit::storage).
std::vector<int64_t> restore_rows(const std::string& file, int64_t last_step, History& history);

}  // namespace bv
