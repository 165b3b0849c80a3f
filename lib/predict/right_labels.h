// The labels of an evaluator's data, as the evaluator itself reads them.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "lib/input/dataset.h"
#include "lib/input/pipeline.h"
#include "lib/predict/predict.h"

namespace bv {

// Whether the config is that of a multilabel model of one class. A label of data without an
// evaluator is then 1 if the image has the class, otherwise 0. Records problems with the config.
bool labels_tell_presence(const Config& config);

class RightLabels {
 public:
  // For data without an evaluator: the labels are in the feature `label`. Reads `task_kw` and
  // `num_classes` of the config. `numbers`: the labels are regression targets, not classes. Records
  // problems with the config.
  RightLabels(const Config& config, bool numbers);
  // Reads `label_key`, `multilabel` and `threshold` of an evaluator and `task_kw` of its config.
  // `pp`: the evaluator's pp_fn. Records problems with the config.
  RightLabels(const Config& config, const Config& evaluator, const Pipeline& pp, bool numbers);

  bool numbers() const { return numbers_; }
  bool multilabel() const { return multilabel_; }
  double threshold() const { return threshold_; }
  // Whether integers are read as labels_tell_presence() says.
  bool tell_presence() const { return tell_presence_; }
  // Whether the data set's class names apply to these labels.
  bool have_names_of_data() const { return have_names_of_data_; }

  // The features after the evaluator's pp_fn that may hold the label. The first one that exists
  // counts.
  std::array<std::string, 2> keys() const { return {key_, made_ ? source_ : kLabel}; }
  // Returns the label of example `index`. `computed` holds its features after the evaluator's
  // pp_fn; only those in keys() are used. If there are none, the label comes from the data set:
  // from the feature from which the pp_fn makes the labels. Returns nullopt if that does not exist
  // either.
  std::optional<RightLabel> of(const Example& computed, const Dataset& data, int64_t index) const;

 private:
  static constexpr const char* kLabel = "label";
  std::optional<RightLabel> read(const at::Tensor& value) const;

  std::string key_ = kLabel;     // of the labels after the evaluator's pp_fn
  std::string source_ = kLabel;  // the feature of the data set from which they are made
  bool made_ = false;            // the two differ
  bool numbers_ = false;
  bool multilabel_ = false;
  bool tell_presence_ = false;
  double threshold_ = 0.5;
  bool have_names_of_data_ = true;
};

}  // namespace bv
