// Predictions as text: a table for people, JSON lines or CSV for programs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lib/predict/predict.h"

namespace bv {

// All need the output "logits" of shape (n, classes), and throw Error(Exit::usage) if it has
// another shape. If PredictedBatch::numbers is set, they write all its values in place of classes.
class PredictionText {
 public:
  virtual ~PredictionText() = default;
  // Returns the text of a batch, or the part of it that can be written now.
  virtual std::string add(const PredictedBatch& batch) = 0;
  // Returns the rest.
  virtual std::string end() { return ""; }
};

// One JSON object per line and example: its file, its label if known, and the `top` most probable
// classes, or "values": [3.5, 7]. With PredictedBatch::multilabel, or if not exactly one class is
// right, the list `labels` replaces `label`. With `values`, this list holds the targets. An image
// without a prediction has the keys `file` and `error` only.
std::unique_ptr<PredictionText> json_lines(int64_t top);

// A header line, then a line per example (RFC 4180). The columns are file; label and label_name if
// labels are known, with semicolons between several classes; class_<k>, name_<k> and
// probability_<k> for k = 1 to `top`; and error. For numbers they are file; label_<k> for each
// number if labels are known; value_<k> for each number; and error.
std::unique_ptr<PredictionText> csv(int64_t top);

// One line per example without an error, with its `top` most probable classes. If labels are
// known, a last line counts the right predictions. The line of an example:
//   test row 3   label 1 Trouser   predicted 1 Trouser   0.993
// By default (0) it shows one class, and with PredictedBatch::multilabel those that are predicted:
//   test row 3   labels 0 cat, 2 dog   predicted 2 dog   0.993   0 cat   0.617
std::unique_ptr<PredictionText> prediction_table(int64_t top = 0);

}  // namespace bv
