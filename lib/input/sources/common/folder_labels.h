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
  bool numbers = false;                  // a name is the number to predict, not a class
  std::optional<std::string> separator;  // stands between several labels or numbers in a name
  Place label_place, separator_place;
};

class FolderLabels {
 public:
  FolderLabels() = default;
  // `folders`: the names, sorted by bytes, each once. Throws Error(Exit::usage) at the place of the
  // key that does not fit the names.
  FolderLabels(const std::vector<std::string>& folders, const FolderLabelKeys& keys);

  // Returns the names of the classes in the order of their numbers, sorted by bytes; none of
  // numbers to predict.
  const std::vector<std::string>& class_names() const { return class_names_; }
  // Returns the name of the feature: "labels" with a separator, "label" without.
  const char* feature() const { return several_ ? "labels" : "label"; }
  // Returns whether each folder is one class: that of the number number_of(folder).
  bool one_class() const { return !several_ && !numbers_; }
  int64_t number_of(size_t folder) const { return class_numbers_.at(folder).at(0); }
  // Returns the feature for images in `folder`, a place in the list of the constructor: of one
  // class () int64; of several (classes,) float32 with 1 for each class; of one number () float32;
  // of several (numbers,) float32.
  at::Tensor tensor(size_t folder) const;
  // Returns what a user should know of the names; "" if there is nothing.
  const std::string& remark() const { return remark_; }

 private:
  bool numbers_ = false, several_ = false;
  std::string remark_;
  std::vector<std::string> class_names_;
  std::vector<std::vector<int64_t>> class_numbers_;  // of each folder
  std::vector<std::vector<float>> values_;           // of each folder, the numbers to predict
};

}  // namespace bv
