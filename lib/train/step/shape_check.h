// Checks before the run begins that the model accepts its preprocessed input. One example goes
// through the model on the meta device, where tensors have shapes but no memory.
#pragma once

#include <memory>
#include <string>

#include "lib/model/model.h"
#include "lib/tasks/task.h"

namespace bv {

class ShapeCheck {
 public:
  // Builds the recipe's model a second time, on the meta device.
  ShapeCheck(const Config& config, const std::string& model_name, const ModelEnv& env,
             Precision precision);

  // Computes the task's loss of `first`, a preprocessed example. Throws Error(Exit::usage) at
  // `place` if the shapes do not fit.
  void training(const Task& task, const Example& first, const Place& place) const;
  // Runs the task's prediction function `pred` on a batch of an evaluator. Throws
  // Error(Exit::usage) at `place` if the shapes do not fit.
  void prediction(const Task& task, const std::string& pred, const Batch& batch,
                  const Place& place) const;

  Model& model() const { return *model_; }
  // Returns tensors on the meta device with the shapes and dtypes of `batch`.
  Batch on_meta(const Batch& batch) const;

 private:
  std::shared_ptr<Model> model_;
  ModelEnv env_;
  Precision precision_;
};

}  // namespace bv
