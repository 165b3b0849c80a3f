// Runs a trained model on images from anywhere: what `bvtrain predict` does.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lib/ckpt/tensors.h"
#include "lib/predict/predict_model.h"

namespace bv {

struct PredictRequest {
  std::vector<std::string> inputs;  // files and folders, see open_inputs(); unused with `eval`
  // The evaluator whose data set, without the examples of its `quarantine`, pp_fn and labels are
  // used; or empty.
  std::string eval;
  int64_t first = 0;  // number of examples, from the first one; 0: all
  // Preprocessing. Default: with `eval` that evaluator's pp_fn, otherwise the pp_fn of the first
  // evaluator of the training or, failing that, of the config.
  std::optional<std::string> pp;
  // "logits", "image" (after preprocessing), or the path of a named activation. Not empty.
  std::vector<std::string> outputs;
  int64_t batch_size = 64;
  c10::Device device = c10::kCPU;  // computes the model
  bool labels = false;             // return the labels, if they are known
};

// What is right for an example.
struct RightLabel {
  // Ascending, and empty if no class is right. If there are several, each of them is a right
  // prediction, or with PredictedBatch::multilabel all of them together.
  std::vector<int64_t> classes = {};
  std::vector<float> values = {};  // with PredictedBatch::numbers, in place of classes
};

struct PredictedRow {
  std::string name;                      // a file, or "row 17"
  std::optional<RightLabel> label = {};  // if known and requested
  // Why there is no prediction: the image could not be read, or the output is NaN or infinite.
  // Otherwise empty.
  std::string error = {};
};

// The predictions for some examples, in the order of the data.
struct PredictedBatch {
  std::vector<PredictedRow> rows;
  // By output: (n, ...) float32, for the n rows without an error. "image" has the type that pp
  // gives. Empty if each row has an error.
  NamedTensors arrays;

  // The same for all batches.
  std::vector<std::string> class_names;  // empty if unknown
  bool labelled = false;                 // the rows have labels
  bool sigmoid = false;  // the model was trained with sigmoid_xent rather than softmax_xent
  // The model was trained by the task regress: "logits" are numbers in the units of its targets.
  bool numbers = false;
  // An image of the evaluator's data may have several classes or none. A class is predicted if its
  // probability is at least `threshold`.
  bool multilabel = false;
  double threshold = 0.5;
};

struct PredictedCounts {
  int64_t examples = 0;
  int64_t failed = 0;      // those with an error
  int64_t not_finite = 0;  // of these, those that could be read
};

// Loads the model and calls `each` with every batch of predictions; only a few batches are in
// memory. Reads `model_name`, `model`, `num_classes`, `precision`, `loss`, `evals`,
// `input.max_pixels` and, if the model has no other weights, `model_init` and `model_load`; ignores
// the other keys of a training config. If only "image" is requested, no model is built and the keys
// are not checked. Frees the tensors of `model.checkpoint` once they are in the model.
//
// An image that cannot be read becomes a row with an error, and a warning; so does one for which an
// output is NaN or infinite. Throws Error(Exit::data) if none can be read, Error(Exit::diverged) if
// no output is finite, and Error(Exit::usage); for an unknown output the message lists the model's
// activations.
PredictedCounts predict(PredictModel& model, const PredictRequest& request,
                        const std::function<void(const PredictedBatch&)>& each);

}  // namespace bv
