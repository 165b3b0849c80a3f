// One training step (reference section 1.4): mixup, forward, loss, backward, clipping, optimizer,
// averaged weights, measurements; and the state that a checkpoint holds.
//
// A step reads nothing back from a device unless it is measured.
#pragma once

#include <c10/core/Event.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/ckpt/tensors.h"
#include "lib/optim/groups.h"
#include "lib/optim/optimizer.h"
#include "lib/params/buckets.h"
#include "lib/params/flat_params.h"
#include "lib/params/state.h"
#include "lib/params/units.h"
#include "lib/tasks/task.h"
#include "lib/train/mixup.h"

namespace bv {

// What the config says about the step: lr, lr_mults, wd, wd_mults, schedule, optax_name, optax,
// grad_clip_norm, mixup, ema, bucket_mb, mesh, sharding_rules, sharding_strategy; grad_accum_steps.
struct StepConfig {
  ParamGroups groups;
  std::unique_ptr<Optimizer> optimizer;
  double clip_norm = 0;  // 0 = off
  MixupConfig mixup;
  std::optional<double> ema_decay;
  int64_t bucket_bytes = 0;  // of gradients that are summed over ranks together
  // A rank's examples go forward and backward in so many equal parts, one after the other; losses
  // and gradients are means over all (reference 8.4).
  int64_t grad_accum_steps = 1;
  std::vector<ShardLevel> levels;  // how ranks share each of named_parameters() out
};
// Records problems with the config; throws Error(Exit::usage) where it can't go on.
StepConfig read_step(const Config& config, const Model& model, const RunLength& length,
                     int ranks = 1);

struct Ranks {
  int count = 1;  // divides the batch
  int first = 0;  // that the run began with, where an elastic restart may have another number; or 0
};
// In how many parts a rank computes its examples. After an elastic restart as many as it takes for
// no rank to compute more examples at once than before; but with batch norm, whose statistics are
// of the examples computed together, as many as before, if they divide its examples. Throws
// Error(Exit::usage).
int64_t read_grad_accum_steps(const Config& config, const Model& model, int64_t batch_size,
                              const Ranks& ranks);

// What ranks tell each other with every step, besides gradients: summed over ranks.
using ControlWord = std::array<double, 5>;

class TrainStep {
 public:
  // Moves the parameters of `model` into flat buffers, their values made by init(i) where that is
  // given (parameter_init()), on `device`. Model and task must outlive this, and so must `group`
  // (null: a group of one).
  TrainStep(Model& model, const Task& task, StepConfig config, uint64_t seed, Precision precision,
            Group* group = nullptr, std::function<void(size_t)> init = {},
            c10::Device device = c10::kCPU);
  ~TrainStep();
  TrainStep(const TrainStep&) = delete;

  // Step number `step` (from 1; the count of updates done must be step - 1). `batch` is this rank's
  // part, on the CPU; its memory may be overwritten, and is no longer used afterwards. With
  // `measure`, measurements() are of this step afterwards. Returns the sum of all ranks' control
  // words.
  ControlWord run(int64_t step, Batch batch, bool measure, const ControlWord& word = {});

  // "global_schedule", "global_schedule1", ... (of update `step`), "l2_grads", "l2_params",
  // "l2_updates", "training_loss", of the last measured step.
  std::vector<std::pair<std::string, double>> measurements(int64_t step) const;
  // The first of training_loss, l2_grads, l2_updates, l2_params that was not finite in some step so
  // far; empty while all are. l2_grads is looked at in clipped and measured steps only.
  const std::string& non_finite();

  int64_t count() const;  // updates done
  const FlatParams& params() const { return params_; }

  // Whether ranks share some of the state out. Then state() and use_ema() are called by all ranks,
  // and state() holds this rank's stretches beside what is whole, on rank 0.
  bool sharded() const { return units_ != nullptr; }
  // Bytes that this rank holds between steps.
  struct Memory {
    int64_t parameters = 0, gradients = 0, state = 0;  // state: optimizer's and averaged weights
  };
  Memory memory() const;

  // Copies of params/<path>, opt/count, opt/<slot>/<path>, buffers/<path> and ema/<path> (trainable
  // parameters and float32 buffers). Dense, but permuted in memory as the model's are: one fast
  // copy of each flat buffer now, transposing is left to whoever writes them.
  NamedTensors state(PiecedTensors* pieced = nullptr);
  // All of state(), bit for bit, whoever shared it out; other names than those prefixes are not
  // looked at. Writes nothing and throws Error(Exit::usage) at `origin` unless everything fits.
  void load_state(const NamedTensors& from, const std::string& origin = "checkpoint",
                  const PiecedTensors& pieced = {});
  // Gives all ranks rank 0's state; what is shared out is each rank's own (made by init, loaded).
  void share_state();
  // The parameters that are shared out, so that no rank has one as a whole.
  std::set<std::string> sharded_parameters() const;
  // By all ranks: those of them that are `names` get rank 0's values; there value(name), of the
  // parameter's shape, is asked for. One parameter at a time is there as a whole.
  void set_sharded_parameters(const std::set<std::string>& names,
                              const std::function<at::Tensor(const std::string&)>& value);
  // Mean and standard deviation of each parameter, in the model's order; by all ranks.
  std::vector<std::pair<double, double>> statistics();

  // The averaged weights in the model's place while the returned object lives. No step may run
  // meanwhile. Error(internal) without `ema`.
  class EmaScope;
  std::unique_ptr<EmaScope> use_ema();

 private:
  using Views = std::vector<std::pair<std::string, at::Tensor>>;
  void start();
  at::Tensor squares() const;
  void sum_over_ranks(const at::Tensor& values, const char* what) const;
  std::vector<StatePart> parts(bool copies) const;
  void swap_ema();
  void average_buffers(float decay);
  Batch upload(Batch batch, std::optional<c10::Event>& done) const;
  at::Tensor backward(int64_t step, Batch batch, ControlWord& word);
  at::Tensor forward(Pass& pass, const Batch& part) const;
  void note(const at::Tensor& loss, const at::Tensor& grads, const at::Tensor& norms, bool measure);
  void note_finite(std::span<const double> values);
  StepScalars scalars() const;

  Model& model_;
  const Task& task_;
  StepConfig config_;
  const uint64_t seed_;
  const Precision precision_;
  Group* const group_;  // null in a group of one
  const c10::Device device_;
  FlatParams params_;
  std::unique_ptr<GradientBuckets> buckets_;  // null in a group of one
  std::unique_ptr<Units> units_;              // null where nothing is shared out
  std::vector<UpdateRange> ranges_;
  at::Tensor count_;   // () int64
  at::Tensor ema_;     // a buffer of state, float32
  Views buffers_;      // the model's own
  Views ema_buffers_;  // averages of the float32 ones
  bool started_ = false;
  double frozen_squares_ = 0;  // sum of squares of the frozen parameters
  double loss_ = 0, l2_grads_ = 0, l2_params_ = 0, l2_updates_ = 0;
  std::string non_finite_;
  at::Tensor bad_;  // (4) bool on a device: what was not finite in the first step with such values
};

class TrainStep::EmaScope {
 public:
  explicit EmaScope(TrainStep& step) : step_(&step) { step.swap_ema(); }
  ~EmaScope() {
    if (step_) step_->swap_ema();
  }
  EmaScope(const EmaScope&) = delete;
  // The averages stay: for a run that fails, where other ranks do not come to swap them back.
  void abandon() { step_ = nullptr; }

 private:
  TrainStep* step_;
};

}  // namespace bv
