// Evaluators: one file each, named after `evals.<any>.type`. Reference section 13.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/config/registry.h"
#include "lib/distributed/group.h"
#include "lib/input/loader/loader.h"
#include "lib/report/metrics.h"
#include "lib/tasks/task.h"

namespace bv {

// What an evaluator may know when it is built.
struct EvalEnv {
  std::string name;        // its key in `evals`
  int64_t batch_size = 0;  // default for its `batch_size`
  int threads = 1;
  uint64_t seed = 0;
  DataEnv data;
  Group* group = nullptr;  // each rank evaluates its part of every batch; null: there is one
};

// A prediction function bound to a model, without gradients, from and to the CPU wherever the model
// is. Gives the function's outputs and beside them the named activations `layers` of the model
// ("pre_logits", "encoder/block00/+sa"). Throws Error(Exit::usage) naming what there is where a
// layer is not among them.
using Predict = std::function<Outputs(const Batch& batch, const std::vector<std::string>& layers)>;
Predict bind_prediction(const Task& task, const std::string& pred, Model& model,
                        Precision precision);

// What an evaluator gets when it runs.
struct EvalContext {
  int64_t step = 0;
  std::string workdir;  // empty: the run writes nothing
  Predict predict;      // `pred`
  bool report = false;  // the run has one: details are worth collecting
  std::function<void(EvalDetails)>
      details;  // takes them; empty without a report, and but on rank 0
  // Called by all ranks alike, once a batch: throws on a signal.
  std::function<void()> poll;
  Group* group = nullptr;  // as in EvalEnv
};

class Evaluator {
 public:
  using Registry = bv::Registry<Evaluator, EvalEnv>;
  static constexpr const char* kKind = "evaluator";
  virtual ~Evaluator() = default;

  // Opens the data and returns its first n examples (fewer if there are fewer) as a batch: what the
  // start of a run and --dry-run check. Empty where the evaluator asks for no predictions. Throws
  // Error(Exit::usage).
  virtual Batch probe(int64_t n) = 0;
  virtual int64_t examples() const = 0;  // of a pass; 0 before probe()
  // The activations it will ask predict() for.
  virtual std::vector<std::string> layers() const { return {}; }
  // Called by all ranks, which emit the same; counts every example once.
  virtual void run(const EvalContext& context, const Measure& emit) = 0;
};

// The keys `batch_size`, `prefetch`, `threads` and `skip_errors` that evaluators with data share.
LoaderOptions read_eval_loader(const Config& config, const EvalEnv& env);

// The input side that evaluators share. Opens nothing until first used.
class EvalInput {
 public:
  // Reads `data`, `pp_fn` and the keys of read_eval_loader().
  EvalInput(const Config& config, const EvalEnv& env);
  // One of several inputs of an evaluator, from a section {name, split, ...}.
  EvalInput(const Config& data, std::shared_ptr<const Pipeline> pp, const LoaderOptions& options,
            const DataEnv& env);
  EvalInput(EvalInput&&) noexcept;
  ~EvalInput();

  Batch probe(int64_t n);
  int64_t examples() const;
  const Dataset& data();
  // Runs `each` over every batch (this rank's part of it) of one pass, in the order of the data,
  // and checks that every example was seen exactly once. All ranks see as many batches.
  void for_each(const EvalContext& context, const std::function<void(const Batch&)>& each);
  // Gives back the threads and batches that are otherwise kept between passes.
  void rest() { loader_.reset(); }

 private:
  std::function<std::shared_ptr<const Dataset>()> open_;
  std::shared_ptr<const Dataset> data_;
  std::shared_ptr<const Pipeline> pp_;
  LoaderOptions options_;
  std::unique_ptr<Loader> loader_;
};

// The batch's dense labels (n, classes) as float32. Error(Exit::usage) where `key` is missing or
// not dense.
at::Tensor dense_labels(const Batch& batch, const std::string& key, const std::string& evaluator);
// The labels of the batch's examples (n) int64. Error(Exit::usage) where `key` is none.
at::Tensor class_labels(const Batch& batch, const std::string& key, const std::string& evaluator);

}  // namespace bv
