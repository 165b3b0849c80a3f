// Representations of a data set for evaluators that classify them: fewshot_lsr and knn.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lib/evals/common/eval_input.h"
#include "lib/evals/evaluator.h"

namespace bv {

// One vector and one class per example, in the order of the data.
struct LabelledFeatures {
  at::Tensor features;  // (n, d) float32
  at::Tensor labels;    // (n) int64
};

// The keys that say what the representation of an example is.
struct RepresentationKeys {
  // Reads representation_layer (an activation of the model; default: the "logits" of the prediction
  // function), label_key (label) and mask_key (_mask). `evaluator` is a name for messages.
  RepresentationKeys(const Config& config, const std::string& evaluator);

  // Returns the activations to ask the model for: Evaluator::activations().
  std::vector<std::string> activations() const;
  // Runs the model over the data once. All ranks must call this and get the same result. Leaves out
  // examples that mask_key masks out and, within skip_errors, those that cannot be read. Throws
  // Error(Exit::usage) if the activation is not one vector per example.
  LabelledFeatures represent(EvalInput& input, const EvalContext& context) const;

  std::string layer, label_key, mask_key, evaluator;
};

// Returns the number of classes: 1 + the greatest label, or the number of class names of the data
// if that is greater. Throws Error(Exit::data) for negative and absurdly large labels.
int64_t count_classes(const Dataset& data, const at::Tensor& labels, const std::string& evaluator);

}  // namespace bv
