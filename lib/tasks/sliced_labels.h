// The labels of training data, read before the training: whether input.pp changes them, and whether
// a slice of the data has other labels than the rest, because its rows are sorted by them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/tasks/task.h"

namespace bv {

// Returns whether examples.quick() gives the feature `key` as examples.computed() does, judging by
// a few examples of each data set. Labels can then be read without decoding the images. Throws
// Error if an example cannot be read.
bool labels_are_quick(const LabelledExamples& examples, const char* key);

// Whether the values of a target only rise or only fall. A slice of rows in such an order lacks the
// values of the others.
class TargetOrder {
 public:
  // Takes the next value, in the order of the rows.
  void add(double value);
  // Returns whether the rows are sorted by these values, and not by chance. Equal values do not
  // count as sorted.
  bool is_sorted() const;
  bool rises() const { return rises_; }
  double first() const { return first_; }
  double last() const { return last_; }

 private:
  int64_t count_ = 0, first_run_ = 0, last_run_ = 0;  // runs: equal values at each end
  double first_ = 0, last_ = 0;
  bool rises_ = true, falls_ = true;
};

// Warns of each sliced data set whose rows are sorted by a target. `orders`: of each data set and
// target.
void warn_of_sorted_targets(const LabelledExamples& examples,
                            const std::vector<std::vector<TargetOrder>>& orders);

// Warns if training data with several classes per image are a slice, and no example has one of
// `classes` classes. Reads the feature `labels`, if that takes neither long nor decoded images.
// `class_names` may be empty.
void warn_of_absent_classes(const LabelledExamples& examples, int64_t classes,
                            const std::vector<std::string>& class_names);

}  // namespace bv
