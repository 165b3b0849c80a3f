// metrics.jsonl: its rows as text, and what an earlier process of the run left in it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/report/metrics.h"

namespace bv {

// {"step": 12, "training_loss": 0.25} and a line feed.
std::string row_text(int64_t step, const Row& row);

// Adds the rows of `file` up to `last_step` to `history` and removes all else from the file, which
// is replaced only if there is something to remove. Returns the steps of the rows, in order. Throws
// Error(Exit::storage).
std::vector<int64_t> restore_rows(const std::string& file, int64_t last_step, History& history);

}  // namespace bv
