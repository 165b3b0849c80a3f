// The images of a prediction: opens them, preprocesses them and skips those that cannot be read.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/input/data_notes.h"
#include "lib/input/loader/loader.h"
#include "lib/predict/predict.h"
#include "lib/predict/right_labels.h"

namespace bv {

// Iterates over the data once, in batches without padding. Only a few batches are in memory.
class PredictData {
 public:
  // Opens the data and preprocesses the first image that can be read. Throws Error(Exit::usage) for
  // bad requests, and Error(Exit::data) if no image can be read. `numbers`: the model predicts
  // numbers, so the labels are numbers too.
  PredictData(const PredictModel& model, const PredictRequest& request, bool numbers);

  int64_t size() const { return size_; }  // number of examples, readable or not
  const Dataset& data() const { return *data_; }
  // Returns the shape of an image after preprocessing: (height, width, channels) for a model.
  const at::Tensor& first_image() const { return options_.prototype.at("image"); }
  // Returns the place of the preprocessing, for messages: --pp or, with --eval, the evaluator's
  // pp_fn.
  const Place& pp_place() const { return pp_place_; }
  // Returns warnings about the files that have been read.
  std::vector<std::string> notes() const { return data_notes(*data_, *pp_); }
  const RightLabels& labels() const { return labels_; }
  // Where the labels come from, for messages: the .npz file, or --eval.
  const std::string& labels_place() const { return labels_place_; }
  // Whether a label that is no class of the model is an error. It is one in an .npz file and for
  // the evaluator class_metrics; other evaluators, such as knn, accept it.
  bool labels_are_classes() const { return labels_are_classes_; }
  // Whether the rows have labels.
  bool labelled() const { return labelled_; }

  // Advances to the next batch. Returns false after the last one. Throws Error(Exit::usage) if
  // images have different shapes.
  bool next();
  // The examples of the batch, and the images of those without an error, stacked. Valid until the
  // next call of next().
  const std::vector<PredictedRow>& rows() const { return rows_; }
  const at::Tensor& images() const { return images_; }

 private:
  // `check`: throws if a raw example does not fit.
  void find_first_image(const std::function<void(const Example&)>& check);
  void check_values();
  bool has_labels(const Example& raw) const;
  // `computed`: the example's features after pp.
  std::optional<RightLabel> label(int64_t index, const Example& computed) const;

  std::shared_ptr<const Dataset> data_;
  std::shared_ptr<const Pipeline> pp_;
  const Place pp_place_;
  const int64_t size_;
  const bool wants_labels_;
  const bool of_evaluator_;     // the data are an evaluator's
  const bool pp_makes_labels_;  // it is the evaluator's
  const RightLabels labels_;
  const std::string labels_place_;
  const bool labels_are_classes_;
  // The value range of the training images. nullopt if it is unknown, or if nothing has to be
  // checked: the run's own pp scales image files.
  std::optional<ValueSpan> trained_on_;
  bool labelled_ = false;
  bool encoded_ = false;  // the images are files, not arrays
  int64_t done_ = 0;
  LoaderOptions options_;
  std::unique_ptr<Loader> loader_;
  std::map<std::string, std::string> failures_;  // the reasons, by the name of the example
  std::vector<PredictedRow> rows_;
  at::Tensor images_;
};

}  // namespace bv
