// What a task and a model may know about the training data before the first step.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "lib/config/config.h"
#include "lib/input/image/normalize.h"
#include "lib/input/loader/loader.h"
#include "lib/input/source.h"
#include "lib/input/training_data.h"
#include "lib/tasks/task.h"

namespace bv {

// Returns the number of examples with each label in an epoch. In a mixture, this number is a mean:
// the share of a data set determines how often its examples come. The sampler of a data set
// (`input.sample`) does not change the numbers. Returns an empty map if the labels of a data set
// are not known before its examples are read.
LabelCounts count_labels(const TrainingData& data);

// Returns a warning if the class names of a CSV file look like several labels in a cell, as
// `cat;indoor` and `dog;indoor`, which without the key `multilabel` are separate classes. Else
// returns "". `data`: the section of the data set.
std::string several_labels_note(const Config& data, const Source& source);

// Returns the examples of all data sets, one data set after the other. `data` must outlive the
// result. Uses only the threads and the error budget of `loader`. `label_key`: the feature that
// `quick` has to give, "labels" or "label".
LabelledExamples labelled_examples(const TrainingData& data, uint64_t seed,
                                   const LoaderOptions& loader,
                                   const std::string& label_key = "labels");

// Returns a function that returns one image after the other, (height, width, channels) float32, and
// an undefined tensor after the last one. The images come from `count` examples at equal
// distances in the data; if the data has fewer examples, from all. input.pp is applied to them, and
// then `normalization`, which is what pp leaves to the training step
// (TrainingData::leave_normalization()). The function leaves out images with values that are not
// finite, and examples that cannot be read. It throws if more than examples.error_budget examples
// cannot be read, or if an example has no such image.
std::function<at::Tensor()> spread_images(LabelledExamples examples, int64_t count,
                                          const std::optional<Normalization>& normalization);

}  // namespace bv
