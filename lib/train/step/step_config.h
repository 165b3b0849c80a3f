// The config of a training step. Most keys are read next to the code that acts on them: lr,
// lr_mults, wd, wd_mults and schedule in lib/optim/param_groups.cc, the section optax by each
// optimizer, mixup in lib/train/mixup.cc, mesh and the sharding_* keys in lib/params/sharding.cc,
// grad_accum_steps in step_gradients.cc. step_config.cc reads the rest: optax_name, ema,
// grad_clip_norm, grad_clip_per_example (refused unless 0), bucket_mb, nan, nan_limit and
// rollback_examples.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "lib/config/duration.h"
#include "lib/input/image/normalize.h"
#include "lib/optim/optimizer.h"
#include "lib/optim/param_groups.h"
#include "lib/params/sharding.h"
#include "lib/train/mixup.h"

namespace bv {

struct StepConfig {
  ParamGroups groups;                                // lr, lr_mults, wd, wd_mults, schedule
  std::unique_ptr<Optimizer> optimizer;              // optax_name, optax
  double clip_norm = 0;                              // grad_clip_norm; 0: no clipping
  MixupConfig mixup;                                 // mixup
  std::optional<Normalization> image_normalization;  // of images that come as bytes
  std::optional<double> ema_decay;                   // ema.decay
  int64_t bucket_bytes = 0;      // bucket_mb: size of an all-reduce of gradients
  int64_t grad_accum_steps = 1;  // micro-batches; the caller of read_step() sets it
  // The key nan_limit if `nan` is `skip` or `rollback`; absent if `nan` is `stop`. If it is set, a
  // step whose loss or gradients are not finite leaves the weights, their averages and the
  // optimizer's moments unchanged. Trainer compares the number of such steps with the limit;
  // TrainStep does not.
  std::optional<int64_t> nan_limit;
  bool rolls_back = false;        // nan: rollback
  int64_t rollback_examples = 0;  // 0: not given
  // mesh, sharding_strategy, sharding_rules: one for each of named_parameters().
  std::vector<ShardLevel> levels;
};

// Reads the keys of the step for a run of `ranks` ranks. Records problems with the config. Throws
// Error(Exit::usage) if the step cannot be built.
StepConfig read_step(const Config& config, const Model& model, const RunLength& length,
                     int ranks = 1);

// The number of ranks. It divides the batch.
struct Ranks {
  int count = 1;
  int at_start = 0;  // when the run began, before any elastic restart; 0: the same
};

// Reads grad_accum_steps: the number of micro-batches, the equal parts in which a rank computes its
// examples one after the other. After an elastic restart the result may be larger than the config
// says, so that no rank holds more examples in memory than before. With batch norm the number stays
// as close to the config's as possible instead, because its statistics depend on the size of a
// micro-batch. Throws Error(Exit::usage). The definition is in step_gradients.cc.
int64_t read_grad_accum_steps(const Config& config, const Model& model, int64_t batch_size,
                              const Ranks& ranks);

}  // namespace bv
