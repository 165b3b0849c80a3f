// Helpers for optimizer tests: they create an optimizer, gradients, and the numbers of a step.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/optim/optimizer.h"
#include "lib/optim/step_numbers.h"
#include "lib/util/rng.h"
#include "test/support/config.h"

namespace bv::test {

// Returns the optimizer `name` with the section `optax`. Throws the errors that a run reports.
inline std::unique_ptr<Optimizer> make(const std::string& name, const std::string& optax) {
  return from_yaml("optax: " + optax, [&](const Config& config) {
    return Optimizer::Registry::make(name, config.section("optax"), {});
  });
}

// Gradients of step `step` in the layout of the parameters. Gaps are zero; some gradients are zero.
inline void fill_gradients(const FlatParams& params, int step) {
  for (const auto& entry : params.entries()) {
    if (entry.group == kFrozen) continue;
    Rng rng(5, Purpose::synthetic, static_cast<uint64_t>(step * 1000 + entry.offset));
    float* g = params.grads().mutable_data_ptr<float>() + entry.offset;
    for (int64_t i = 0; i < entry.numel; ++i) {
      g[i] = i % 17 == 0 ? 0.0F : static_cast<float>(rng.normal());
    }
  }
}

// Returns StepScalars::numbers of the update that follows `count` others.
inline at::Tensor numbers_of(const Optimizer& optimizer, int64_t count,
                             const std::vector<float>& schedules, float ema_decay = 0) {
  StepNumbers numbers(std::ssize(schedules), c10::kCPU);
  numbers.set({.step = count + 1,
               .ema_decay = ema_decay,
               .rule = optimizer.rule_numbers(count),
               .schedules = schedules});
  return numbers.fused();
}

}  // namespace bv::test
