// Checks before a run or an evaluation begins that the model accepts its preprocessed input. One
// example goes through the model on the meta device, where tensors have shapes but no memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lib/model/model.h"
#include "lib/tasks/task.h"
#include "lib/train/eval_job.h"

namespace bv {

// Returns n examples of an evaluator (Evaluator::probe()); an empty batch if it needs no
// predictions. `keys`: those of the evaluator. Throws Error(Exit::usage), at pp_fn if an example
// cannot be read or has no image.
Batch probe_evaluator(const EvalJob& job, const Config& keys, int64_t n);

class ShapeCheck {
 public:
  // Builds the model of a run a second time, on the meta device, with the buffers of `task`, which
  // must outlive this.
  ShapeCheck(const Config& config, const std::string& model_name, const ModelEnv& env,
             Precision precision, const Task& task);

  // Computes the task's loss of `first`, a preprocessed example. Throws Error(Exit::usage) at
  // `place` if the shapes do not fit.
  void training(const Example& first, const Place& place) const;
  // Runs the prediction function of an evaluator on a batch of its data. `keys`: those of the
  // evaluator. Throws Error(Exit::usage) at one of them if the shapes do not fit, if the model
  // lacks an activation that the evaluator requests, if test-time augmentation does not work, or if
  // the evaluator cannot use the outputs (Evaluator::check_outputs()).
  void evaluation(const EvalJob& job, const Batch& batch, const Config& keys) const;

 private:
  // Returns tensors on the meta device with the shapes and dtypes of `batch`.
  Batch on_meta(const Batch& batch) const;
  // Returns the outputs on the meta device; none if an operator of the model lacks an
  // implementation there.
  Outputs check_prediction(const std::string& pred, const Batch& batch, const Place& place) const;
  void check_outputs(const EvalJob& job, const Batch& batch, Outputs outputs,
                     const Config& keys) const;

  std::shared_ptr<Model> model_;
  const Task& task_;
  ModelEnv env_;
  Precision precision_;
};

}  // namespace bv
