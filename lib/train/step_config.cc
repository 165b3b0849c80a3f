// The keys of the step.
#include <algorithm>

#include "lib/train/step.h"

namespace bv {
namespace {

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
  if (config.get<double>("grad_clip_per_example", 0.0) != 0) {
    config.problem("grad_clip_per_example",
                   "needs gradients per example, which no task gives; use grad_clip_norm");
  }
  return norm;
}

int64_t read_bucket_bytes(const Config& config) {
  const auto megabytes = config.get<double>("bucket_mb", 25.0);
  if (!(megabytes > 0 && megabytes <= 1e6))
    config.problem("bucket_mb", fmt::format("must be positive, in MiB, got {}", megabytes));
  return static_cast<int64_t>(std::clamp(megabytes, 1e-3, 1e6) * 0x1p20);
}

// The smallest divisor of n that is at least `least`.
int64_t divisor_from(int64_t least, int64_t n) {
  while (n % least != 0) ++least;
  return least;
}

// In how many parts a rank computes its examples. Records problems with the config.
int64_t read_grad_accum_steps(const Config& config, const Model& model, int64_t batch_size,
                              const Ranks& ranks) {
  const auto asked = config.get<int64_t>("grad_accum_steps", 1);
  if (asked < 1) {
    config.problem("grad_accum_steps", fmt::format("must be at least 1, got {}", asked));
    return 1;
  }
  const int first = ranks.first > 0 ? ranks.first : ranks.count;
  if (batch_size % ranks.count != 0 || batch_size % first != 0) return 1;  // is said elsewhere
  if (const int64_t own = batch_size / first; own % asked != 0) {
    config.problem("grad_accum_steps",
                   fmt::format("must divide the {} examples of each process (batch_size {} over "
                               "{}), got {}",
                               own, batch_size, first, asked));
    return 1;
  }
  // Buffers are statistics of what is computed together.
  const bool batch_norm = !named_buffers(model).empty();
  if (batch_norm && asked > 1) {
    config.warn("grad_accum_steps",
                fmt::format("batch norm takes its statistics from {} examples at a time, not from "
                            "the {} of the batch",
                            batch_size / asked, batch_size));
  }
  if (first == ranks.count) return asked;
  const int64_t own = batch_size / ranks.count, at_once = batch_size / first / asked;
  const int64_t least = batch_norm ? std::min(asked, own) : (own + at_once - 1) / at_once;
  const int64_t parts = divisor_from(least, own);
  if (own / parts > at_once) {
    config.warn("grad_accum_steps",
                fmt::format("each process computes {} examples at once, not {} as with {} "
                            "processes: other parts would change the statistics of batch norm",
                            own / parts, at_once, first));
  }
  return parts;
}

// How each parameter is shared out. Records problems with the config.
std::vector<dist::Keep> read_sharing(const Config& config, const Model& model,
                                     const StepConfig& step, int ranks) {
  const dist::Sharding sharding(config, ranks);
  std::vector<dist::Keep> keep;
  std::string problem;
  const auto named = named_parameters(model);
  for (size_t i = 0; i < named.size(); ++i) {
    const auto& [name, value] = named[i];
    std::vector<std::string> slots;
    if (step.optimizer && step.groups.group_of.at(i) != kFrozen) {
      for (const Optimizer::Slot& slot : step.optimizer->slots()) slots.push_back(slot.name);
    }
    try {
      keep.push_back(sharding.keep(name, 4 * value.numel(), slots));
    } catch (const Error& error) {
      if (problem.empty()) problem = error.what();
    }
  }
  if (!problem.empty()) config.problem("sharding_strategy", problem);
  const bool any = std::find(keep.begin(), keep.end(), dist::Keep::fsdp) != keep.end();
  if (any && ranks > 1 && model.units().empty()) {
    config.warn("sharding_strategy",
                "this model is not made of units that are gathered one by one (a vit is without "
                "'scan'): its sharded parameters are all there during a step");
  }
  return keep;
}

}  // namespace

StepConfig read_step(const Config& config, const Model& model, const RunLength& length,
                     Ranks ranks) {
  StepConfig step;
  bool good = attempt(config, [&] {
    const auto name = config.get<std::string>("optax_name");
    step.optimizer =
        Optimizer::Registry::make(name, config.section("optax"), config.place("optax_name"));
  });
  good &= attempt(config, [&] { step.ema_decay = read_ema(config); });
  good &= attempt(config, [&] { step.groups = read_groups(config, names_of(model), length); });
  step.clip_norm = read_clip_norm(config);
  step.mixup = read_mixup(config.section("mixup"));
  step.bucket_bytes = read_bucket_bytes(config);
  step.grad_accum_steps = read_grad_accum_steps(config, model, length.batch_size, ranks);
  if (good)
    step.keep = read_sharing(config, model, step, ranks.count);
  else
    dist::Sharding(config, ranks.count);
  if (!good) throw_problems(config);
  return step;
}

}  // namespace bv
