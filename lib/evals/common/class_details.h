// What the report shows of a classifier, class by class.
#pragma once

#include <string>
#include <vector>

#include "lib/evals/common/class_scores.h"
#include "lib/report/eval_details.h"

namespace bv {

// Returns the figures of every class, the curves of the mean and of the 10 classes with the lowest
// average precision, and the confusion matrix of up to 1000 classes unless `scores` are multilabel.
// `names` has a name for each class.
EvalDetails class_details(const ClassScores& scores, const std::vector<std::string>& names);

// Returns the suffixes of the names of per-class metrics: the class names, with an underscore for
// each character other than letters, digits and _ - . A class gets its number if its name is then
// without a letter or digit, or that of another class too.
std::vector<std::string> class_name_ends(const std::vector<std::string>& names);

}  // namespace bv
