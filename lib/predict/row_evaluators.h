// Checks which evaluators measured the rows in a folder of `bvtrain eval`. The config.yaml in that
// folder records them.
#pragma once

#include <string>

#include "lib/ckpt/workdir/workdir.h"

namespace bv {

// The member of an evaluator in that file that holds the loss of the run, if the evaluator measures
// with it: {"loss": "huber", "delta": 2}. `delta` is that of task_kw, unless it is 1, the default.
// Files of earlier versions lack this member.
inline constexpr const char* kLossOfRun = "loss_of_run";

// Returns the new text of the folder's config.yaml: the evaluators of the rows in the folder and
// `evals`, the evaluators of the next row. An evaluator stays in the text even if `evals` lacks it,
// because earlier rows have values under its name. Throws Error(Exit::usage) if `evals` does not
// fit the rows: evaluators of the same name must measure the same, and `evals` must include all
// earlier evaluators or be a part of them.
std::string add_to_row_evaluators(const Workdir& rows, const std::string& evals);

}  // namespace bv
