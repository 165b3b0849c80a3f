// The labels in the names of class folders.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/config/config.h"

namespace bv {

struct FolderLabelKeys {
  bool numbers = false;                   // a name is a regression target, not a class
  std::optional<std::string> separator;   // separates several labels or numbers in a name
  std::vector<std::string> classes = {};  // in the order of their numbers; empty: sorted by bytes
  Place label_place, separator_place, classes_place;
};

class FolderLabels {
 public:
  FolderLabels() = default;
  // `folders`: their names, sorted by bytes, without repeats. Throws Error(Exit::usage), at the
  // place of the key, for a name that does not fit the keys.
  FolderLabels(const std::vector<std::string>& folders, const FolderLabelKeys& keys);

  // Returns the names of the classes: class i has the i-th name. Empty if the labels are numbers.
  const std::vector<std::string>& class_names() const { return class_names_; }
  // Returns the name of the feature: "labels" with a separator, "label" without.
  const char* feature() const { return several_ ? "labels" : "label"; }
  // Returns whether each folder is one class. number_of() is then the number of its class.
  bool one_class() const { return !several_ && !numbers_; }
  int64_t number_of(size_t folder) const { return class_numbers_.at(folder).at(0); }
  // Returns the label of the images in `folder`, an index into the constructor's list:
  //   one class         () int64, the number of the class
  //   several classes   (classes,) float32, 1 for the classes in the name and 0 for the others
  //   one number        () float32
  //   several numbers   (numbers,) float32
  at::Tensor tensor(size_t folder) const;
  // Returns what a user should know about the names; "" if there is nothing.
  const std::string& remark() const { return remark_; }

 private:
  bool numbers_ = false, several_ = false;
  std::string remark_;
  std::vector<std::string> class_names_;
  std::vector<std::vector<int64_t>> class_numbers_;  // one list for each folder
  std::vector<std::vector<float>> values_;           // one list for each folder, if numbers_
};

}  // namespace bv
