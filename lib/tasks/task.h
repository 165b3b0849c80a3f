// Tasks: what a batch means. From inputs to the training loss and to predictions.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/input/loader/loader.h"
#include "lib/model/model.h"

namespace bv {

using Outputs = std::map<std::string, at::Tensor>;

// What the config says outside of the task's own section.
struct TaskEnv {
  std::string loss_name = "sigmoid_xent";  // key `loss`
  Place loss_place = {};                   // where it was written
  double label_smoothing = 0;              // key `label_smoothing`, in [0, 1)
};

class Task {
 public:
  using Registry = bv::Registry<Task, TaskEnv>;
  static constexpr const char* kKind = "task";
  virtual ~Task() = default;

  // The mean over the batch, a scalar with a gradient. Batch keys: "image", "labels".
  virtual at::Tensor loss(Model& model, const Batch& batch, Pass& pass) const = 0;

  // Prediction functions evaluators may name in `pred` (reference 13.1): "predict" gives {"logits"}
  // and fills pass.features, "loss" gives {"loss"}: per example.
  virtual std::vector<std::string> predictions() const = 0;
  virtual Outputs predict(const std::string& pred, Model& model, const Batch& batch,
                          Pass& pass) const = 0;
};

}  // namespace bv
