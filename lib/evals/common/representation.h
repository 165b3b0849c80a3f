// Representations of a data set for evaluators that classify them: fewshot_lsr and knn.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lib/config/key_table.h"
#include "lib/evals/common/eval_input.h"
#include "lib/evals/evaluator.h"

namespace bv {

// One vector and one class per example, in the order of the data.
struct LabelledFeatures {
  at::Tensor features;  // (n, d) float32
  at::Tensor labels;    // (n) int64
};

inline constexpr KeyText kRepresentationKeys[] = {
    {"representation_layer", "string", "\"\"",
     "Name of the model's activation that represents an example, which must be one vector. The "
     "usual choice is `pre_logits`, the input of the last layer; the default is the logits, the "
     "output of the model. A wrong name gives an error that lists the valid ones.",
     "pre_logits"},
    {"label_key", "string", "label",
     "Name of the feature with the class of an example as an integer, not one-hot."},
    {"mask_key", "string", "_mask",
     "Name of a feature that masks examples, with one value each: those where it is 0 are left "
     "out. By default all examples count."},
};

// The keys that define the representation of an example.
struct RepresentationKeys {
  // Reads kRepresentationKeys. `evaluator` is a name for messages.
  RepresentationKeys(const Config& config, const std::string& evaluator);

  // Returns the activations to ask the model for: Evaluator::activations().
  std::vector<std::string> activations() const;
  // Returns the output that is the representation without an activation: Evaluator::output().
  std::string output() const;
  // For Evaluator::probe(): throws Error(Exit::usage) if a batch of the data lacks the class of
  // each example, or the feature that masks examples.
  void check_batch(const Batch& batch) const;
  // Returns the representations among the outputs of the model, (n, d). Throws Error(Exit::usage)
  // if they are not one vector per example.
  at::Tensor vectors_in(const Outputs& outputs) const;
  // Runs the model over the data once. All ranks must call this and get the same result. Leaves out
  // examples that mask_key masks out and, within skip_errors, those that cannot be read. Throws
  // Error(Exit::usage) if the activation is not one vector per example or if no example is left,
  // and Error(Exit::diverged), with the first example, if a number is NaN or infinite.
  LabelledFeatures represent(EvalInput& input, const EvalContext& context) const;

  std::string layer, label_key, mask_key, evaluator;
};

// Throws Error(Exit::usage) if the images of two data sets of an evaluator differ in their number
// of channels or their dtype: the model takes only one of them.
void require_same_form(const Batch& one, const Batch& other, const std::string& evaluator);

// Returns the number of classes: 1 + the largest label, or the number of class names of the data if
// that is larger. Throws Error(Exit::data) for negative and absurdly large labels.
int64_t count_classes(const Dataset& data, const at::Tensor& labels, const std::string& evaluator);

}  // namespace bv
