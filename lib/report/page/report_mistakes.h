// The gallery of wrongly classified examples.
#pragma once

#include <cstddef>
#include <string>

#include "lib/report/eval_details.h"

namespace bv {

// Returns HTML with a picture of each wrongly classified example, its name in the data set, the
// true class, the predicted class and its confidence. It has at most `most_bytes`: pictures are
// made smaller or left out, and the last examples are left out if even their descriptions are too
// long. Empty if there are no mistakes.
std::string render_mistakes(const EvalDetails& details, size_t most_bytes);

}  // namespace bv
