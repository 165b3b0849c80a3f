// What a task may know of the labels of the training data before the first step.
#pragma once

#include <cstdint>

#include "lib/input/training_data.h"
#include "lib/tasks/task.h"

namespace bv {

// Returns how many training examples have each label, over all data sets of a mixture. Empty if
// that of one data set is not known without reading its examples.
LabelCounts count_labels(const TrainingData& data);

// Returns the examples of all data sets, one data set after the other. `data` must outlive the
// result.
LabelledExamples labelled_examples(const TrainingData& data, uint64_t seed, int64_t error_budget);

}  // namespace bv
