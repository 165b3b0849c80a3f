#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lib/evals/common/tta.h"
#include "lib/model/model.h"
#include "lib/tasks/task.h"

namespace bv {

// A prediction function of a task, bound to a model. Returns the outputs of the function and those
// activations of the model that `activations` names ("pre_logits", "encoder/block00/+sa"). Batches
// and results are on the CPU whatever device the model is on. No gradients are computed. Throws
// Error(Exit::usage) if the model has no such activation; the message lists those that it has.
using Predict =
    std::function<Outputs(const Batch& batch, const std::vector<std::string>& activations)>;

// Returns the prediction function `pred` of `task` (the key `evals.*.pred`). `task` and `model`
// must outlive it. With test-time augmentation each output is the mean over all views of the
// images, and requesting activations is an Error(Exit::usage). Images that the model does not take
// (Model::takes_size()) are an Error(Exit::usage) too.
Predict bind_prediction(const Task& task, const std::string& pred, Model& model,
                        Precision precision, const Tta& tta = {});

}  // namespace bv
