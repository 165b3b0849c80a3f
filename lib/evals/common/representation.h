// A data set as one vector and one class per example: what few-shot and nearest-neighbour
// evaluators work on.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "lib/evals/evaluator.h"

namespace bv {

struct Represented {
  at::Tensor features;  // (n, d) float32, in the order of the data
  at::Tensor labels;    // (n) int64
};

// How to make it of a batch.
struct RepresentationKeys {
  // Reads `representation_layer` (an activation of the model; default: the prediction function's
  // logits), `label_key` and `mask_key`.
  RepresentationKeys(const Config& config, const std::string& evaluator);

  std::vector<std::string> layers() const;  // to ask the model for
  // One pass. Examples that can't be read, within skip_errors, and those that mask_key masks out
  // are left out. Throws Error(Exit::usage) where the layer isn't a vector per example.
  Represented represent(EvalInput& input, const EvalContext& context) const;

  std::string layer, label_key, mask_key, evaluator;
};

// 1 + the greatest label, or the data's number of classes where that is known and greater. Negative
// labels are Error(Exit::usage).
int64_t count_classes(const Dataset& data, const at::Tensor& labels, const std::string& evaluator);

}  // namespace bv
