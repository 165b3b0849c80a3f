#include "lib/train/step/step_cost.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace bv {
namespace {

// Returns the bytes that a rank sends per step for a parameter, divided by the parameter's bytes.
// With N ranks, an all-reduce counts 2 (N - 1) / N, and a reduce-scatter or an all-gather half of
// that. `gathers`: how often fsdp gathers the parameter's unit in a step.
double passes_over_network(ShardLevel level, bool frozen, int64_t gathers, int ranks,
                           int64_t micro_batches) {
  const int64_t sums = frozen ? 0 : micro_batches;  // reduce-scatters
  const int64_t halves = level == ShardLevel::fsdp    ? gathers + sums
                         : frozen                     ? 0
                         : level == ShardLevel::zero2 ? sums + 1  // and an all-gather
                         : level == ShardLevel::zero1 ? 3         // all-reduce, all-gather
                                                      : 2;        // all-reduce
  return static_cast<double>(halves) * (ranks - 1) / ranks;
}

// Returns how often fsdp gathers a parameter's unit per step: for the forward and the backward pass
// of each micro-batch. The last unit is still in memory when backward begins, so it is gathered
// once per micro-batch. A parameter outside all units is gathered once per step
// (lib/params/sharded_units.h).
int64_t gathers_of(const std::vector<std::string>& units, const std::string& name,
                   int64_t micro_batches) {
  const auto found = std::find_if(units.begin(), units.end(),
                                  [&](const std::string& unit) { return name.starts_with(unit); });
  const auto behind = std::distance(found, units.end());
  return behind == 0 ? 1 : behind == 1 ? micro_batches : 2 * micro_batches;
}

}  // namespace

StepCost step_cost(const StepConfig& config, const Model& model, int ranks) {
  StepCost cost;
  const int64_t micro_batches = config.grad_accum_steps;
  const auto parameters = named_parameters(model);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto count = static_cast<double>(parameters[i].second.numel());
    // Elements of the parameter that a rank holds, if it is sharded at level `least` or above.
    const auto own = [&](ShardLevel least) {
      return config.levels[i] >= least ? count / ranks : count;
    };
    cost.state_bytes += 4 * own(ShardLevel::fsdp);
    const bool frozen = config.groups.group_of[i] == kFrozen;
    const int64_t gathers = gathers_of(model.units(), parameters[i].first, micro_batches);
    cost.sent_bytes +=
        4 * count * passes_over_network(config.levels[i], frozen, gathers, ranks, micro_batches);
    if (frozen) continue;
    const double state = own(ShardLevel::zero1);
    cost.state_bytes += 4 * own(ShardLevel::zero2) + (config.ema_decay ? 4 * state : 0);
    for (const auto& slot : config.optimizer->slots())
      cost.state_bytes += static_cast<double>(c10::elementSize(slot.dtype)) * state;
    // Every rank holds it whole, in float32.
    const int64_t other = config.optimizer->other_elements(parameters[i].second.sizes());
    cost.state_bytes += 4 * static_cast<double>(other);
  }
  return cost;
}

}  // namespace bv
