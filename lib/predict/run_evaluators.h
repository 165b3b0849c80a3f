// The model and the evaluators of a trained run, for `bvtrain eval`.
#pragma once

#include <c10/core/Device.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/ckpt/checkpointer.h"
#include "lib/ckpt/workdir/workdir.h"
#include "lib/config/load_config.h"
#include "lib/device/spin_throttle.h"
#include "lib/model/model.h"
#include "lib/model/pass.h"
#include "lib/report/metric_writer.h"
#include "lib/tasks/task.h"
#include "lib/train/eval_job.h"
#include "lib/train/selection.h"

namespace bv {

struct EvaluateRequest {
  std::string workdir;  // of the run
  // A YAML file; only its `evals`, `batch_size_eval` and `best` are used. Empty: those of the run.
  std::string config = {};
  std::vector<Override> overrides = {};  // applied to the resulting config
  // Wait for new checkpoints until the run has finished and the last one is evaluated.
  bool follow = false;
  double patience = 600;           // seconds in which a run that failed may be started again
  c10::Device device = c10::kCPU;  // computes the model
};

// Throws Error(Exit::usage) if one of request.overrides has no effect on an evaluation.
void check_overrides(const EvaluateRequest& request);
// Returns the evaluators that a request asks for, as JSON. Builds nothing.
std::string evaluators_of(const EvaluateRequest& request, const Restored& from);
// Returns whether the resulting config has an entry of `best` with `by: eval`. Builds nothing.
bool keeps_best(const EvaluateRequest& request, const Restored& from);

class RunEvaluators {
 public:
  // Builds the model of the checkpoint's run and the evaluators of `with_evals`, a checkpoint of
  // the same run, or those of request.config, and opens their data. Sets the number of compute
  // threads to that of the run. The checkpoints need not have tensors. Throws Error(Exit::usage),
  // also if the run had generated data, or if the model cannot take the images of an evaluator.
  // `with_best`: read `best` too.
  RunEvaluators(const EvaluateRequest& request, const Restored& from, const Restored& with_evals,
                bool with_best);

  // Returns the evaluators as JSON. Those that measure with the loss of the run hold it as
  // kLossOfRun, and those that can identify their data hold that as kContentOfData.
  std::string evals() const;
  // Returns the config from which they were built.
  const Config& config() const { return config_; }
  // Returns the series of `best` with `by: eval`; none if they were not read.
  const std::vector<BestSeries>& best() const { return best_; }
  // Copies the weights of a checkpoint of the run into the model and adds the metrics of all
  // evaluators to the current row of `metrics`. `folder` is where an evaluator may write files. It
  // must be claimed; null if an evaluator may write no files. Throws Error, and Stopped after a
  // signal.
  void run(const Restored& checkpoint, MetricWriter& metrics, const Workdir* folder);

 private:
  // `env`: what the model was built for.
  void read_jobs(const Restored& from, const ModelEnv& env);
  void run_job(EvalJob& job, const Restored& checkpoint, EvalContext context,
               MetricWriter& metrics);

  const Config config_;
  const int threads_;
  const c10::Device device_;
  const Precision precision_;
  const SpinThrottle throttle_{threads_};
  std::shared_ptr<Model> model_;
  std::unique_ptr<Task> task_;
  std::string loss_;                             // of the run
  std::map<std::string, std::string> contents_;  // kContentOfData, by evaluator
  std::vector<EvalJob> jobs_;
  std::vector<BestSeries> best_;
  MetricOwners metric_owners_;
};

}  // namespace bv
