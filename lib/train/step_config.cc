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

// How each parameter is shared out. Records problems with the config.
std::vector<ShardLevel> read_sharing(const Config& config, const Model& model,
                                     const StepConfig& step, int ranks) {
  const Sharding sharding(config, ranks);
  std::vector<ShardLevel> levels;
  std::string problem;
  const auto named = named_parameters(model);
  for (size_t i = 0; i < named.size(); ++i) {
    const auto& [name, value] = named[i];
    std::vector<std::string> slots;
    if (step.optimizer && step.groups.group_of.at(i) != kFrozen) {
      for (const Optimizer::Slot& slot : step.optimizer->slots()) slots.push_back(slot.name);
    }
    try {
      levels.push_back(sharding.level(name, 4 * value.numel(), slots));
    } catch (const Error& error) {
      if (problem.empty()) problem = error.what();
    }
  }
  if (!problem.empty()) config.problem("sharding_strategy", problem);
  const bool any = std::find(levels.begin(), levels.end(), ShardLevel::fsdp) != levels.end();
  if (any && ranks > 1 && model.units().empty()) {
    config.warn("sharding_strategy",
                "this model is not made of units that are gathered one by one (a vit is without "
                "'scan'): its sharded parameters are all there during a step");
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
  step.mixup = read_mixup(config.section("mixup"));
  step.bucket_bytes = read_bucket_bytes(config);
  if (good)
    step.levels = read_sharing(config, model, step, ranks);
  else
    Sharding(config, ranks);
  if (!good) throw_problems(config);
  return step;
}

int64_t read_grad_accum_steps(const Config& config, const Model& model, int64_t batch_size,
                              const Ranks& ranks) {
  constexpr const char* kKey = "grad_accum_steps";
  const auto asked = config.get<int64_t>(kKey, 1);
  if (asked < 1) config.fail(kKey, fmt::format("must be at least 1, got {}", asked));
  const bool elastic = ranks.first > 0 && batch_size % ranks.first == 0;
  const int first = elastic ? ranks.first : ranks.count;
  const int64_t own = batch_size / ranks.count, before = batch_size / first;
  if (before % asked != 0) {
    config.fail(kKey, fmt::format("must divide the {} examples of each process (batch_size {} over "
                                  "{}), got {}",
                                  before, batch_size, first, asked));
  }
  // Buffers are statistics of what is computed together.
  const bool batch_norm = !named_buffers(model).empty();
  const int64_t at_once = before / asked;
  const int64_t parts =
      divisor_from(batch_norm ? std::min(asked, own) : (own + at_once - 1) / at_once, own);
  if (batch_norm && parts > 1) {
    config.warn(kKey, fmt::format("batch norm takes its statistics from {} examples at a time, not "
                                  "from the {} of the batch{}",
                                  batch_size / parts, batch_size,
                                  parts == asked ? ""
                                                 : fmt::format("; with {} processes it took them "
                                                               "from {}",
                                                               first, batch_size / asked)));
  }
  if (batch_norm && own / parts > at_once) {
    config.warn(kKey, fmt::format("each process computes {} examples at once, not {} as with {} "
                                  "processes, for the statistics of batch norm",
                                  own / parts, at_once, first));
  }
  return parts;
}

}  // namespace bv
