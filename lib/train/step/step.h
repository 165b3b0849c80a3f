// One training step, as in big_vision's train.py: mixup, forward, loss, backward, clipping,
// optimizer, averaged weights and measurements. Also the state that a checkpoint holds.
//
// step.cc runs a step, step_gradients.cc computes the gradients of a batch, step_non_finite.cc
// handles values that are not finite, step_state.cc saves and loads the state. A step reads a value
// back from the device only if it is measured.
#pragma once

#include <c10/core/Event.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/ckpt/restored.h"
#include "lib/ckpt/tensors.h"
#include "lib/optim/step_numbers.h"
#include "lib/params/first_gradients.h"
#include "lib/params/flat_params.h"
#include "lib/params/gradient_buckets.h"
#include "lib/params/host_copies.h"
#include "lib/params/sharded_units.h"
#include "lib/params/state_part.h"
#include "lib/tasks/task.h"
#include "lib/train/step/step_config.h"
#include "lib/train/step/step_graph.h"
#include "lib/train/step/word_reduction.h"

namespace bv {

class TrainStep {
 public:
  // Moves the parameters of `model` into flat buffers on `device`. Their values are kept, or made
  // by init(i) for the i-th parameter if `init` is given (see parameter_init()). `model`, `task`
  // and `group` must outlive this. A group that is not open counts as a group of one.
  TrainStep(Model& model, const Task& task, StepConfig config, uint64_t seed, Precision precision,
            Group& group = Group::single(), std::function<void(size_t)> init = {},
            c10::Device device = c10::kCPU);
  ~TrainStep();
  TrainStep(const TrainStep&) = delete;

  // From now on steps are captured as a graph and replayed (lib/train/step/step_graph.h). With
  // StepConfig::nan_limit the graph ends before the update, because the host decides whether there
  // is one. Returns why steps are not captured if they cannot be, otherwise "".
  std::string use_graph(std::unique_ptr<GraphRecorder> recorder);
  // Returns whether a later step will be captured.
  bool graph_is_due() const { return graph_ && graph_->is_due(); }
  // Returns whether a step was captured and is replayed now.
  bool repeats_graph() const { return graph_ && graph_->is_recorded(); }
  // Called for a step whose loss or gradients are not finite. `before`: the weights are still those
  // before the step.
  using BadStepHook = std::function<void(int64_t step, const std::string& why, bool before)>;
  // Sets the function that run() calls for such steps: for each one with StepConfig::nan_limit,
  // otherwise for the first one. Without nan_limit, a GPU does not detect them in time and never
  // calls it.
  void on_bad_step(BadStepHook hook) { on_bad_step_ = std::move(hook); }
  // For a replay, in which this process holds the examples of all ranks of a run: pairs examples
  // for mixup as those `ranks` ranks did.
  void repeat_ranks(int ranks) { config_.mixup.ranks_here = ranks; }
  // Runs step `step`, which must be count() + 1. `batch` holds this rank's examples on the CPU. Its
  // memory may be overwritten, and is free again when this returns. Returns the sum of all ranks'
  // `word`. With `measure`, measurements() holds this step's values afterwards.
  ControlWord run(int64_t step, Batch batch, bool measure, const ControlWord& word = {});

  // Returns the measurements of the last measured step: "l2_grads", "l2_params", "l2_updates" and
  // "training_loss". Before them the schedules at `step`: "global_schedule", "global_schedule1",
  // ...
  std::vector<std::pair<std::string, double>> measurements(int64_t step) const;
  // Returns the name of the measurement that first became NaN or infinite in any step so far, or an
  // empty string. Every step is checked, except that l2_grads is known only in steps that are
  // measured, that clip or that use a graph. Steps that were skipped do not count.
  const std::string& non_finite();
  // Returns where that was, as far as it is known: "first at step 12: 3 of 14 gradients are not
  // finite, such as that of 'head/kernel'". Empty on a GPU, where it is detected later.
  const std::string& first_non_finite() const { return first_non_finite_; }
  // If the last step was skipped because of StepConfig::nan_limit, returns why: "the loss is
  // nan; 14 of 14 gradients are not finite, ...". Otherwise an empty string.
  const std::string& skipped() const { return skipped_; }

  // Returns the sum of the state that every rank holds as a whole, with the bits read as integers:
  // the parameters, Optimizer::other_state(), the buffers with their averages and, if nothing is
  // sharded, the optimizer's slots and the averages of the parameters. It differs on ranks whose
  // states differ, except by an unlikely accident. Waits for the device unless the last step was
  // measured while compares_states().
  int64_t digest() const;
  // Whether measured steps compute digest(), so that the ranks can compare their states: true for
  // several ranks, until stop_comparing().
  bool compares_states() const { return compares_states_; }
  void stop_comparing() { compares_states_ = false; }

  int64_t count() const;  // the number of steps done, including skipped ones
  const FlatParams& params() const { return params_; }

  // Returns whether each rank holds only a part of some of the state. All ranks must then call
  // state() and use_ema() together.
  bool sharded() const { return units_ != nullptr; }
  // Returns the FLOPs of forward and backward of one example: two for each multiply-accumulate of
  // the forward pass, times three to include backward. 0: not known, because no step has run or
  // because steps differ (Model::varies()).
  double example_flops() const { return 6 * macs_; }
  // Returns the bytes that this rank's device reads and writes in a step: the inputs and outputs of
  // LibTorch's operators in forward and backward (lib/device/operator_record.h), and
  // update_bytes(). Known after the second run() on a GPU if the model's steps do not differ,
  // otherwise 0.
  double step_bytes() const { return step_bytes_; }
  // Returns the bytes that the update reads and writes: parameters, gradients and state.
  double update_bytes() const;
  // Bytes that this rank holds between steps.
  struct Memory {
    int64_t parameters = 0, gradients = 0;
    int64_t state = 0;  // of the optimizer, and the averaged weights
  };
  Memory memory() const;

  // Returns copies on the CPU of params/<path>, opt/count, opt/<slot>/<path>, buffers/<path> and
  // ema/<path> (trainable parameters and float32 buffers). The copies keep the memory layout of the
  // model; whoever writes them transposes. If the state is sharded, `pieced` receives this rank's
  // pieces, and only rank 0 returns the whole tensors. The copies are in `copies`, which is
  // restarted first, or in new memory.
  NamedTensors state(PiecedTensors* pieced = nullptr, HostCopies* copies = nullptr);
  int64_t state_bytes() const;  // of what state() returns on this rank
  // Restores all of state() bitwise, however it was sharded. Tensors with other prefixes are
  // ignored. Throws Error(Exit::usage) at `origin`, without changing anything, unless every tensor
  // fits.
  void load_state(const NamedTensors& from, const std::string& origin = "checkpoint",
                  const PiecedTensors& pieced = {});
  // Returns what load_state() needs of a checkpoint: this rank's slices of sharded tensors, and all
  // others as a whole.
  Wanted wanted() const;
  // Gives all ranks rank 0's state, except for the sharded parts, which each rank keeps as it has
  // initialized or loaded them.
  void broadcast_state();
  // Returns the names of the parameters that no rank holds as a whole.
  std::set<std::string> sharded_parameters() const;
  // Sets those of sharded_parameters() that are in `names`. All ranks call this together. Only rank
  // 0 calls value(name), which must return a tensor of the parameter's shape. One whole parameter
  // is in memory at a time.
  void set_sharded_parameters(const std::set<std::string>& names,
                              const std::function<at::Tensor(const std::string&)>& value);
  // Returns the mean and standard deviation of each of named_parameters(). All ranks call this
  // together.
  std::vector<std::pair<double, double>> statistics();

  // Puts the averaged weights in the model's place until the returned object is destroyed. No step
  // may run in the meantime. Throws Error(Exit::internal) if the config has no `ema`.
  class EmaScope;
  std::unique_ptr<EmaScope> use_ema();

 private:
  using Views = std::vector<std::pair<std::string, at::Tensor>>;

  // The gradients of a batch (step_gradients.cc).
  at::Tensor forward(Pass& pass, const Batch& micro_batch) const;
  at::Tensor compute_gradients(const Batch& batch);

  // The rest of a step (step.cc).
  void start();
  Batch upload(Batch batch, std::optional<c10::Event>& done);
  void set_numbers(int64_t step);
  StepResult compute(Batch batch, bool measure);
  void update(StepResult& result);
  at::Tensor squares(const at::Tensor& flat, int64_t UpdateRange::*offset, const char* what) const;
  void sum_if_sharded(const at::Tensor& values, const char* what) const;
  void average_buffers(const at::Tensor& rest);
  void swap_ema();
  at::Tensor digest_on_device() const;
  void read_back(const at::Tensor& all, bool measure);

  // Values that are not finite (step_non_finite.cc).
  bool skip(const StepResult& result, const Views& buffers, bool measure);
  void look_before_update(const StepResult& result);
  std::string describe_bad(double loss, double squares) const;
  std::string bad_gradients(const char* what = "gradients") const;
  void record_non_finite(std::span<const double> values);

  // The state (step_state.cc).
  std::vector<StatePart> state_parts(HostCopies* copies = nullptr) const;
  bool is_saved(const StatePart& part) const;  // whether this rank's state() has it

  Model& model_;
  const Task& task_;
  StepConfig config_;
  const uint64_t seed_;
  const Precision precision_;
  Group& group_;  // Group::single() unless the group is open
  const c10::Device device_;
  std::optional<c10::Stream> copies_;  // copies batches to the device; nullopt until the first
  std::array<std::optional<c10::Event>, 2> ends_;  // of the last two steps on the device

  FlatParams params_;
  FirstGradients gradients_;
  std::unique_ptr<GradientBuckets> buckets_;  // null in a group of one
  std::unique_ptr<ShardedUnits> units_;       // null if nothing is sharded
  std::vector<UpdateRange> ranges_;           // what this rank updates
  std::optional<StepGraph> graph_;
  StepNumbers numbers_;
  std::vector<float> schedules_;  // their values in this step
  WordReduction word_;

  at::Tensor count_;   // () int64: updates done
  at::Tensor ema_;     // averages of the trainable parameters, a flat buffer of state, float32
  Views buffers_;      // the model's own buffers
  Views ema_buffers_;  // averages of those that are float32

  bool started_ = false;       // start() has run since the weights were last set
  double frozen_squares_ = 0;  // the sum of squares of the frozen parameters

  int64_t runs_ = 0;       // since this was constructed
  double step_bytes_ = 0;  // 0: not known
  double macs_ = 0;        // multiply-accumulates of one example, forward only; 0: not known

  // Of the last measured step.
  double loss_ = 0, l2_grads_ = 0, l2_params_ = 0, l2_updates_ = 0;
  std::optional<int64_t> digest_;  // if several ranks train; empty: digest() computes it
  bool compares_states_ = false;
  std::string non_finite_, first_non_finite_, skipped_;
  BadStepHook on_bad_step_;
  bool told_bad_step_ = false;
  at::Tensor bad_;  // (4) bool, on a device only: which values were the first to be non-finite
};

class TrainStep::EmaScope {
 public:
  explicit EmaScope(TrainStep& step) : step_(&step) { step.swap_ema(); }
  ~EmaScope() {
    if (step_) step_->swap_ema();
  }
  EmaScope(const EmaScope&) = delete;
  // Leaves the averages in the model. For a run that fails: swapping back needs all ranks, and the
  // others may never get there.
  void abandon() { step_ = nullptr; }

 private:
  TrainStep* step_;
};

}  // namespace bv
