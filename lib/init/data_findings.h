// What `bvtrain init` finds in a folder of data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/init/label_request.h"
#include "lib/init/sampled_images.h"
#include "lib/input/detect_data.h"

namespace bv {

struct FoundClass {
  std::string name;                      // its number if the data does not name it
  int64_t examples = 0, validation = 0;  // in the whole splits, before slicing
};

// A number that the model learns to predict. The values are those of the whole training split,
// before slicing.
struct FoundTarget {
  std::string name;
  double least = 0, mean = 0, most = 0;
};

struct DataFindings {
  std::string folder;
  DetectedData data;
  LabelTask task = LabelTask::classify;
  LabelKeys labels;  // if the user has said what the labels are
  // Split expressions of the training and validation data, and of the test data if there is any.
  std::string train, validation, test;
  bool sliced = false;   // validation data is a part of the training split
  int64_t examples = 0;  // of the training split before slicing
  int64_t train_examples = 0, validation_examples = 0;
  // Empty: the source does not know its labels, or they are targets.
  std::vector<FoundClass> classes;
  int64_t without_class = 0;  // with multilabel: images of the training split, before slicing
  bool soft_labels = false;   // with multilabel: some are neither 0 nor 1
  std::vector<FoundTarget> targets;  // of the task regress
  SampledImages images;
  // A line for each file that is clearly broken, at most 20, and the number of all such files.
  std::vector<std::string> broken;
  int64_t broken_files = 0;
  bool turned = false;  // some images have an EXIF orientation
  // One line each: which of several files are used as the data, and what training will ignore.
  std::vector<std::string> notes;
  std::vector<std::string> warnings;  // one line each: what the user should check

  // Returns whether training has to skip examples that cannot be read.
  bool any_broken() const { return broken_files > 0 || !images.broken.empty(); }
  // Return the classes with the fewest and the most training examples, among those that have any;
  // null if the source does not know its labels.
  const FoundClass* rarest() const;
  const FoundClass* most_frequent() const;
  // Returns whether the most frequent class has at least three times the examples of the rarest.
  bool imbalanced() const;
};

// Finds out what `folder` holds, through the sources (lib/input/detect_data.h). With a request, the
// data is a CSV file in it. Throws Error(Exit::usage) at `folder` if it is not a folder, or if it
// holds nothing to train on.
DataFindings inspect_data(const std::string& folder, const LabelRequest& request = {});

}  // namespace bv
