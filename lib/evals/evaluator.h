// The interface of evaluators: what `evals.<name>` in a config runs. Each evaluator is one file in
// lib/evals, named after its `type`; the table at its head describes its keys and metrics. The keys
// that all of them share are read by lib/train/eval_job.cc (pred, prefix, log_*, ...) and by
// lib/evals/common/eval_input.h (data, pp_fn, batch_size, ...). Modelled on big_vision's
// evaluators/common.py.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lib/config/registry.h"
#include "lib/distributed/group.h"
#include "lib/evals/common/predict.h"
#include "lib/input/loader/loader.h"
#include "lib/input/prepare_data.h"
#include "lib/report/eval_details.h"
#include "lib/report/row.h"

namespace bv {

// What the constructor of an evaluator gets besides its config.
struct EvalEnv {
  std::string name;        // its key in `evals`
  int64_t batch_size = 0;  // the default of its `batch_size`
  int threads = 1;         // the default of its `threads`
  uint64_t seed = 0;
  bool pinned = false;  // batches are in pinned memory, from which a GPU copies faster
  DataEnv data;
  std::string loss;         // of the run; empty if it is not known
  bool multilabel = false;  // the task's key: an image may have several classes or none
  // The ranks of the run, each of which evaluates its part of every batch; never null.
  Group* group = &Group::single();
};

// What an evaluator gets when it runs.
struct EvalContext {
  int64_t step = 0;
  std::string workdir;  // empty if the run has none
  // Throws Error(Exit::storage) if the path `workdir` no longer names the folder that was claimed.
  // An evaluator that writes there calls it first. Empty: there is nothing to check.
  std::function<void()> check_folder;
  Predict predict;  // the prediction function that the config's `pred` names
  // Whether the run writes a report; the same on all ranks. Only then do the ranks need to collect
  // details.
  bool report = false;
  // Adds details to the report. Empty if the run writes no report, and on all ranks but rank 0.
  std::function<void(EvalDetails)> details;
  // If set, all ranks call it with the same arguments after each pass over a data set whose
  // skip_errors is not 0: the name of the data set, how many examples the pass skipped, and those
  // of them that may not have been passed before, in the order of the data.
  std::function<void(const std::string& data, int64_t count, const std::vector<FailedExample>&)>
      left_out;
  // If set, all ranks call it once per batch. It throws after a signal.
  std::function<void()> poll;
  Group* group = &Group::single();  // as in EvalEnv
};

class Evaluator {
 public:
  using Registry = bv::Registry<Evaluator, EvalEnv>;
  static constexpr const char* kKind = "evaluator";
  virtual ~Evaluator() = default;

  // Opens the data and returns n of its examples as a batch (fewer if there are fewer). A run
  // calls this once before training, to check data and preprocessing. Returns an empty batch if the
  // evaluator needs no predictions. Throws Error(Exit::usage).
  virtual Batch probe(int64_t n) = 0;
  // Returns the number of examples in a pass; 0 before probe().
  virtual int64_t examples() const = 0;
  // Returns Dataset::fingerprint() of the data; 0 before probe(), and if the evaluator has no data
  // set.
  virtual uint64_t fingerprint() const { return 0; }
  // Returns Dataset::content() of the data, or StoredArrays::content() of the arrays; 0 before
  // probe(), and if the evaluator does not support this.
  virtual uint64_t content() const { return 0; }
  // Returns the names of the activations that run() will ask context.predict() for.
  virtual std::vector<std::string> activations() const { return {}; }
  // Returns the output of a prediction function (PredictionFunction::output) that run() reads;
  // empty if it needs none.
  virtual std::string output() const { return kLogitsOutput; }
  // Returns the name of the file that run() writes, in which placeholders may stand; empty if it
  // writes none. Two evaluators of a run must not have the same.
  virtual std::string outfile() const { return ""; }
  // Returns whether what run() measures depends on the loss of the run.
  virtual bool follows_loss() const { return output() == kLossOutput; }
  // Returns whether what run() measures depends on EvalEnv::multilabel.
  virtual bool follows_multilabel() const { return false; }
  // Checks the shapes that run() needs. `outputs`: what context.predict() returns for `batch`, a
  // batch of probe(), with tensors on the meta device: they have shapes but no values. A run calls
  // this once before training. Throws Error(Exit::usage).
  virtual void check_outputs(const Batch&, const Outputs&) const {}
  // Returns the names of the metrics that run() may emit; nullopt if only run() can tell. Keys that
  // name a metric (`best`, `early_stop`) are checked with them before the training.
  virtual std::optional<std::vector<std::string>> metrics() const { return std::nullopt; }
  // Evaluates the model and passes each metric to `emit`. All ranks call it and emit the same
  // values; every example counts once.
  virtual void run(const EvalContext& context, const Measure& emit) = 0;
};

}  // namespace bv
