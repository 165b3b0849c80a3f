// Whether a model can take what its input gives: one example through a model that has shapes but no
// memory, so that it is known before the run begins.
#pragma once

#include <memory>
#include <string>

#include "lib/model/model.h"
#include "lib/tasks/task.h"

namespace bv {

class ShapeCheck {
 public:
  // Builds the model of a recipe a second time, on the meta device.
  ShapeCheck(const Config& config, const std::string& model_name, const ModelEnv& env,
             Precision precision);

  // The task's loss of `first`, an example after pp. What does not fit is Error(Exit::usage) at
  // `place`.
  void training(const Task& task, const Example& first, const Place& place) const;
  // The task's prediction function `pred` on a batch of an evaluator.
  void prediction(const Task& task, const std::string& pred, const Batch& batch,
                  const Place& place) const;

  Model& model() const { return *model_; }
  Batch on_meta(const Batch& batch) const;

 private:
  std::shared_ptr<Model> model_;
  ModelEnv env_;
  Precision precision_;
};

}  // namespace bv
