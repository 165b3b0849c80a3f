// Which evaluators the rows of `bvtrain eval` come from. Its config.yaml records them.
#pragma once

#include <string>

#include "lib/ckpt/workdir/workdir.h"

namespace bv {

// Returns the evaluators of the rows in the folder together with `evals`, those of the next row, as
// text for its config.yaml. An evaluator that a later row lacks stays: its earlier values still
// have its name. Throws Error(Exit::usage) if the rows are of other evaluators: evaluators of the
// same name must measure the same, and `evals` must include the earlier ones or be a part of them.
std::string add_to_row_evaluators(const Workdir& rows, const std::string& evals);

}  // namespace bv
