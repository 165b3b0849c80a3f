// The part of the training data that is set aside for validation if the data has no other.
#pragma once

#include <memory>
#include <string>

#include "lib/init/data_findings.h"
#include "lib/init/label_vectors.h"
#include "lib/input/source.h"

namespace bv {

// Divides a split in two: the last part of its examples is for validation.
void slice(const std::string& split, DataFindings& found);

// Divides a split by folds: a fixed random choice, stratified by class if each example has one
// class.
void use_folds(const std::string& split, DataFindings& found);

// Divides a split by folds if it is sliced and a slice of it is not a fair sample of its classes.
void divide_by_folds(const std::shared_ptr<const Source>& source, const std::string& split,
                     DataFindings& found);

// Returns whether the slice `part` may be a random choice of `all` examples, judging by the labels.
bool may_be_random(const LabelVectors& part, const LabelVectors& all);

}  // namespace bv
