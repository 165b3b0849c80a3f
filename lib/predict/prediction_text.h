// Predictions as text. Both functions need the output "logits" of shape (n, classes) and throw
// Error(Exit::usage) if it has another shape.
#pragma once

#include <cstdint>
#include <string>

#include "lib/predict/predict.h"

namespace bv {

// Returns one JSON object per line and example: its file, its label if known, and the `top` most
// probable classes.
std::string prediction_json_lines(const Prediction& prediction, int64_t top);

// Returns a table with one line per example, and the number of right predictions if labels are
// known:
//   test row 3   label 1 Trouser   predicted 1 Trouser   0.993
std::string prediction_table(const Prediction& prediction);

}  // namespace bv
