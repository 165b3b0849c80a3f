// The interface of tasks: how a batch becomes a training loss and predictions. Each task is one
// file in lib/tasks, named after the config's `task`.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lib/input/loader/loader.h"
#include "lib/model/model.h"

namespace bv {

// What a prediction function returns, by name.
using Outputs = std::map<std::string, at::Tensor>;

// What the constructor of a task gets besides its own section of the config.
struct TaskEnv {
  std::string loss_name = "sigmoid_xent";  // the key `loss`
  Place loss_place = {};                   // where `loss` is written, for messages
  double label_smoothing = 0;              // the key `label_smoothing`, in [0, 1)
};

class Task {
 public:
  using Registry = bv::Registry<Task, TaskEnv>;
  static constexpr const char* kKind = "task";
  virtual ~Task() = default;

  // Runs the model on a batch and returns the mean loss: a scalar with a gradient. Throws
  // Error(Exit::usage) if the batch lacks a feature that the task needs.
  virtual at::Tensor loss(Model& model, const Batch& batch, Pass& pass) const = 0;

  // Returns the prediction functions that an evaluator may name in `pred` (as big_vision's train.py
  // offers them). Every task has "predict" (outputs "logits"; fills pass.features) and "loss"
  // (output "loss": one value per example, without label smoothing).
  virtual std::vector<std::string> predictions() const = 0;
  // Runs the model on a batch and returns the outputs of the prediction function `pred`.
  virtual Outputs predict(const std::string& pred, Model& model, const Batch& batch,
                          Pass& pass) const = 0;
};

}  // namespace bv
