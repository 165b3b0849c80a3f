// Checks which evaluators measured the rows in a folder of `bvtrain eval`. The config.yaml in that
// folder records them.
#pragma once

#include <string>
#include <vector>

#include "lib/ckpt/workdir/workdir.h"
#include "lib/config/config.h"

namespace bv {

// The member of an evaluator in that file that holds the loss of the run, if the evaluator measures
// with it: {"loss": "huber", "delta": 2}. `delta` is that of task_kw, unless it is 1, the default.
// Files of earlier versions lack this member.
inline constexpr const char* kLossOfRun = "loss_of_run";
// The member that identifies the examples of the evaluator, wherever their files are: a text. An
// evaluator that does not support this lacks it, and so do files of earlier versions.
inline constexpr const char* kContentOfData = "content_of_data";

// Returns the new text of the folder's config.yaml: the evaluators of the rows in the folder and
// `evals`, the evaluators of the next row. An evaluator stays in the text even if `evals` lacks it,
// because earlier rows have values under its name. Throws Error(Exit::usage) if `evals` does not
// fit the rows: evaluators of the same name must measure the same, and `evals` must include all
// earlier evaluators or be a part of them.
//
// `read`: the whole config from which the evaluators were built. Then a key that equals its default
// may be left out, and the same data may be at another path. Null: they were not built.
std::string add_to_row_evaluators(const Workdir& rows, const std::string& evals,
                                  const Config* read = nullptr);
// Returns whether add_to_row_evaluators() accepts `evals` without building the evaluators.
bool fits_row_evaluators(const Workdir& rows, const std::string& evals);
// Returns the names of the evaluators in `evals` of which the rows in the folder have no metrics;
// none if the folder does not say which evaluators its rows have.
std::vector<std::string> evaluators_without_rows(const Workdir& rows, const std::string& evals);

}  // namespace bv
