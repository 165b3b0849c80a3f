#include "lib/train/step/step_config.h"

#include <algorithm>

#include "lib/config/key_table.h"

namespace bv {
namespace {

const KeyTable step_keys(
    "", {},
    {{"optax_name", "string", "required",
      "Optimizer that turns gradients into weight updates. Adam is `scale_by_adam`, and SGD with "
      "momentum is `sgd` or `big_vision.momentum_hp`; `bvtrain --list optimizers` prints all "
      "names.",
      "scale_by_adam"},
     {"optax", "map", "{}", "Arguments of the optimizer. Each optimizer has its own.",
      "{b2: 0.95, mu_dtype: bfloat16}"},
     {"grad_clip_norm", "float >= 0", "0",
      "Maximum global L2 norm of the gradients. Larger gradients are scaled down to it. This "
      "protects training from single bad batches. 1 is common for transformers; 0 turns it off.",
      "1.0"},
     {"grad_clip_per_example", "'0' | bool", "0",
      "Only 0 and false are accepted, because per-image gradients are not computed. Use "
      "`grad_clip_norm`."},
     {"ema", "map", "none",
      "Keeps an exponential moving average of the weights, which often scores better. Evaluators "
      "with `ema: true` measure it. It takes as much memory as the weights.",
      "{decay: 0.9999}", "-"},
     {"nan", "'stop' | 'skip' | 'rollback'", "stop",
      "What to do when the loss or a gradient is NaN or infinite. `stop` ends the run with exit "
      "code 4; the last checkpoint is from before that step. `skip` prints a warning and continues "
      "with the next step; the weights, their averages and the optimizer's moments stay unchanged. "
      "The skipped step counts for the schedule and for Adam's bias correction. `rollback` returns "
      "to the last checkpoint and continues with other training examples. It needs checkpoints at "
      "intervals (`ckpt_steps` or `keep_ckpt_steps`). On a GPU, `skip` and `rollback` wait for "
      "each step to finish, and `stop` notices such a step at the next row of training metrics, "
      "evaluation or checkpoint.",
      "", "-"},
     {"nan_limit", "int >= 0", "10",
      "Maximum number of skipped steps (`nan: skip`) or of returns to a checkpoint (`nan: "
      "rollback`) in a run, restarts included. The next one ends the run with exit code 4.",
      "", "-"},
     {"rollback_examples", "int >= 1", "= those from the checkpoint to the bad step",
      "With `nan: rollback`, the number of training examples to skip after the return to a "
      "checkpoint. By default, the run skips all examples up to and including the bad step, so "
      "that none of them is used again in this epoch.",
      "", "-"},
     {"bucket_mb", "float 0<..1000000", "25",
      "Size in MiB of the gradient buckets that processes reduce during backward, at most 1000000. "
      "Smaller buckets start sooner; larger ones have less overhead per message. With one process "
      "it has no effect.",
      "", "-"}});

const KeyTable ema_keys("ema",
                        {"An exponential moving average of the weights. The decay is smaller in "
                         "the first steps: min(decay, t / (t + 9)) in step t (from 1).",
                         "decay: 0.9999"},
                        {{"decay", "float 0..<1", "required",
                          "Fraction of the average that each step keeps; the rest comes from the "
                          "new weights. A decay d averages about the last 1 / (1 - d) steps, which "
                          "should be a small part of the run. It must be below 1.",
                          "0.9999"}});

std::vector<std::string> names_of(const Model& model) {
  std::vector<std::string> names;
  for (const auto& [name, parameter] : named_parameters(model)) names.push_back(name);
  return names;
}

std::optional<double> read_ema(const Config& config) {
  if (!config.has("ema")) return std::nullopt;
  const Config ema = config.section("ema");
  const auto decay = ema.get<double>("decay");
  if (!(decay >= 0 && decay < 1)) {
    ema.problem("decay", fmt::format("must be at least 0 and below 1, got {}", decay));
  }
  ema.done();
  return decay;
}

double read_clip_norm(const Config& config) {
  const auto norm = config.get<double>("grad_clip_norm", 0.0);
  if (!(norm >= 0)) {
    config.problem("grad_clip_norm", fmt::format("must not be negative, got {}", norm));
  }
  const char* const per_example = "grad_clip_per_example";  // a bool in big_vision
  const bool flag = config.is_text(per_example, "true") || config.is_text(per_example, "false");
  if (flag ? config.get<bool>(per_example) : config.get<double>(per_example, 0.0) != 0) {
    config.problem("grad_clip_per_example",
                   "is not supported: no task computes gradients per example; use grad_clip_norm");
  }
  return norm;
}

int64_t read_bucket_bytes(const Config& config) {
  const auto megabytes = config.get<double>("bucket_mb", 25.0);
  if (!(megabytes > 0 && megabytes <= 1e6))
    config.problem("bucket_mb",
                   fmt::format("must be above 0 and at most 1000000 (MiB), got {}", megabytes));
  return static_cast<int64_t>(std::clamp(megabytes, 1e-3, 1e6) * 0x1p20);
}

// Reads what to do after a step with non-finite values.
void read_nan(const Config& config, StepConfig& step) {
  const std::string nan = config.word("nan", "stop", {"stop", "skip", "rollback"});
  constexpr int64_t kDefaultLimit = 10;
  const auto limit = config.get<int64_t>("nan_limit", kDefaultLimit);
  if (limit < 0) config.problem("nan_limit", fmt::format("must be at least 0, got {}", limit));
  if (nan != "stop")
    step.nan_limit = limit;
  else if (limit != kDefaultLimit)  // the config.yaml of a run gives the default
    config.warn("nan_limit", "has no effect without nan: skip or rollback");
  step.rolls_back = nan == "rollback";
  const auto examples = config.maybe<int64_t>("rollback_examples");
  if (examples && *examples < 1)
    config.problem("rollback_examples", fmt::format("must be at least 1, got {}", *examples));
  if (examples && !step.rolls_back)
    config.warn("rollback_examples", "has no effect without nan: rollback");
  step.rollback_examples = examples.value_or(0);
}

// Returns the shard level of each parameter. Records problems with the config.
std::vector<ShardLevel> read_levels(const Config& config, const Model& model,
                                    const StepConfig& step, int ranks) {
  const Sharding sharding(config, ranks);
  std::vector<ShardLevel> levels;
  std::vector<std::string> names;
  std::string problem;
  const auto named = named_parameters(model);
  for (size_t i = 0; i < named.size(); ++i) {
    const auto& [name, value] = named[i];
    std::vector<std::string> slots;
    if (step.optimizer && step.groups.group_of.at(i) != kFrozen) {
      for (const Optimizer::Slot& slot : step.optimizer->slots()) slots.push_back(slot.name);
    }
    for (std::string& each : Sharding::names(name, slots)) names.push_back(std::move(each));
    try {
      levels.push_back(sharding.level(name, 4 * value.numel(), slots));
    } catch (const Error& error) {
      if (problem.empty()) problem = error.what();
      levels.push_back(ShardLevel::replicated);
    }
  }
  if (!problem.empty()) config.problem("sharding_strategy", problem);
  if (named.empty()) return levels;  // the model is not known
  for (const std::string& pattern : sharding.unmatched(names)) {
    config.warn(
        "sharding_strategy",
        fmt::format(
            "the pattern '{}' matches nothing: names begin with params/ or opt/, such as {}",
            pattern, names.front()));
  }
  const bool none = std::all_of(levels.begin(), levels.end(), [](const ShardLevel level) {
    return level == ShardLevel::replicated;
  });
  if (none && ranks > 1 && problem.empty() && sharding.shards()) {
    config.warn("sharding_strategy",
                "nothing is sharded, because no array is larger than min_size_to_shard_mb of fsdp, "
                "4 MiB by default");
  }
  const bool any = std::find(levels.begin(), levels.end(), ShardLevel::fsdp) != levels.end();
  if (any && ranks > 1 && model.units().empty()) {
    config.warn("sharding_strategy",
                "this model does not gather its parameters unit by unit (a vit does without "
                "'scan'): every rank holds all sharded parameters during a step");
  }
  return levels;
}

}  // namespace

StepConfig read_step(const Config& config, const Model& model, const RunLength& length, int ranks) {
  StepConfig step;
  bool good = attempt(config, [&] {
    const auto name = config.get<std::string>("optax_name");
    step.optimizer =
        Optimizer::Registry::make(name, config.section("optax"), config.place("optax_name"));
  });
  good &= attempt(config, [&] { step.ema_decay = read_ema(config); });
  good &= attempt(config, [&] { step.groups = read_groups(config, names_of(model), length); });
  step.clip_norm = read_clip_norm(config);
  step.mixup = read_mixup(config, ranks, length.made_up ? 0 : length.batch_size);
  step.bucket_bytes = read_bucket_bytes(config);
  read_nan(config, step);
  if (good)
    step.levels = read_levels(config, model, step, ranks);
  else
    Sharding(config, ranks);
  if (!good) throw_problems(config);
  return step;
}

}  // namespace bv
