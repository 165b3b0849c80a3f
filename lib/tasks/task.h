// The interface of tasks: how a batch becomes a training loss and predictions. Each task is one
// file in lib/tasks, named after the config's `task`.
#pragma once

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "lib/input/loader/loader.h"
#include "lib/model/model.h"

namespace bv {

// What a prediction function returns, by name.
using Outputs = std::map<std::string, at::Tensor>;

// The outputs of the prediction functions that every task has.
inline constexpr const char* kLogitsOutput = "logits";
inline constexpr const char* kLossOutput = "loss";

struct PredictionFunction {
  std::string name;    // what an evaluator names in `pred`
  std::string output;  // the name of what Task::predict() gives for it
};

// The number of examples with each label in an epoch. In a mixture these numbers are means, which
// need not be whole. Empty if they are not known before the examples are read.
using LabelCounts = std::map<int64_t, double>;

// What the constructor of a task gets besides its arguments, the section `task_kw` of the config.
struct TaskEnv {
  std::string loss_name = "sigmoid_xent";  // the key `loss`
  Place loss_place = {};                   // where `loss` is written, for messages
  double label_smoothing = 0;              // the key `label_smoothing`, in [0, 1)
  Place smoothing_place = {};              // where `label_smoothing` is written
  int64_t num_classes = 0;                 // of the model; 0: not known
  // The feature of the training data from which input.pp makes `labels`. label_counts() is about
  // the feature "label".
  std::string label_feature = "label";
  std::vector<std::string> class_names = {};  // of `label` in the training data; empty: not named
  // Returns the labels of the training data. Empty if nothing is trained, or if the data could not
  // be opened: then a task skips whatever needs the labels.
  std::function<LabelCounts()> label_counts = {};
};

// The training examples, for a task that must know all labels before the first step. The functions
// throw what Dataset::read() and compute_example() throw.
struct LabelledExamples {
  int64_t size = 0;
  // The index of the first example of each data set of a mixture, in ascending order.
  std::vector<int64_t> parts = {0};
  int threads = 1;  // how many may call the functions at the same time
  std::function<Example(int64_t index)> computed;  // after input.pp
  // Applies only those ops of input.pp that may affect the labels, to an example that is read
  // without its separate files, such as an image. May throw if these ops need such a file.
  std::function<Example(int64_t index)> quick;
  std::function<std::string(int64_t index)> describe;
  int64_t error_budget = 0;  // how many examples may fail
  // Of each data set: whether it is a slice of a split, such as train[:80%], in the order of the
  // rows. Empty: none is.
  std::vector<bool> sliced = {};
  // Warns about the split of a data set. May be empty.
  std::function<void(size_t part, const std::string& why)> warn_of_split = {};
};

// The losses that compare numbers, not classes: those of the task `regress`.
inline constexpr const char* kNumberLosses[] = {"mse", "l1", "huber"};
inline bool compares_numbers(const std::string& loss) {
  return std::find(std::begin(kNumberLosses), std::end(kNumberLosses), loss) !=
         std::end(kNumberLosses);
}
// Returns the loss of a run without the key `loss`.
inline std::string default_loss(const std::string& task) {
  return task == "regress" ? "mse" : "sigmoid_xent";
}
// Returns the key `loss`, or the loss of a run without it. Records a problem with the config unless
// it is a registered loss or one that compares numbers.
std::string read_loss(const Config& config);

class Task {
 public:
  using Registry = bv::Registry<Task, TaskEnv>;
  static constexpr const char* kKind = "task";
  virtual ~Task() = default;

  // Adds to a new model the buffers that the task keeps in it. `outputs` is the model's
  // num_classes. Every model that the task runs must have them.
  virtual void add_buffers(Model& model, int64_t outputs) const {}
  // Sets these buffers from the training examples, of which `first` is one after input.pp. Called
  // once before a training; a checkpoint replaces the values. Throws Error(Exit::usage).
  virtual void fit(Model& model, const LabelledExamples& examples, const Example& first) const {}

  // Checks the values of a batch that loss() or predict() will get. The batch is still on the
  // host, so nothing is read back from a device; on the meta device it has no values. Throws
  // Error(Exit::usage).
  virtual void check_values(const Batch& batch) const {}
  // The same for a training batch, before mixup. May also warn of labels that the loss cannot use.
  virtual void check_training_values(const Batch& batch) const { check_values(batch); }
  // Runs the model on a batch and returns the mean loss: a scalar with a gradient. Throws
  // Error(Exit::usage) if the batch lacks a feature that the task needs.
  virtual at::Tensor loss(Model& model, const Batch& batch, Pass& pass) const = 0;
  // Returns the sum of the weights of the batch's examples, () float32 on its device, or an
  // undefined tensor if the task gives its examples no weights. A step divides loss() by the mean
  // weight of its whole batch, over all ranks and micro-batches.
  virtual at::Tensor weight(const Batch& batch) const { return {}; }

  // Returns the prediction functions that an evaluator may name in `pred` (as big_vision's train.py
  // offers them). Every task has "predict", which also fills pass.features, and "loss", which gives
  // one value per example, without label smoothing.
  virtual std::vector<PredictionFunction> predictions() const {
    return {{"predict", kLogitsOutput}, {"loss", kLossOutput}};
  }
  // Runs the model on a batch and returns the output of the prediction function `pred`.
  virtual Outputs predict(const std::string& pred, Model& model, const Batch& batch,
                          Pass& pass) const = 0;
};

}  // namespace bv
