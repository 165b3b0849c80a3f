// The parts of an evaluator's section that show figures per class, curves and residuals.
#pragma once

#include <cstddef>
#include <string>

#include "lib/report/eval_details.h"

namespace bv {

// Each returns HTML, or nothing if the details have nothing of the kind.
//
// A table of the classes: examples, precision, recall, F1, average precision, AUROC. If there are
// many classes, it shows those with the lowest F1 among the classes that have examples.
std::string render_class_table(const EvalDetails& details);
// The ROC and the precision-recall curves.
std::string render_curves(const EvalDetails& details);
// The errors of a regression over the targets, one chart for each target.
std::string render_residuals(const EvalDetails& details);

}  // namespace bv
