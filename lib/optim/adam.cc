#include "lib/optim/adam.h"

#include <c10/util/BFloat16.h>

#include <cmath>

#include "lib/optim/fused.h"

namespace bv {
double read_decay(const Config& config, const char* key, double fallback) {
  const auto value = config.get<double>(key, fallback);
  if (!(value >= 0 && value < 1)) {
    config.problem(key, fmt::format("must be at least 0 and below 1, got {}", value));
  }
  return value;
}

Optimizer::RuleNumbers adam_numbers(double b1, double b2, int64_t count) {
  const auto k = static_cast<double>(count + 1);
  return {static_cast<float>(1 - std::pow(b1, k)), static_cast<float>(1 - std::pow(b1, k + 1)),
          static_cast<float>(1 - std::pow(b2, k))};
}

Adam::Adam(const Config& config)
    : Optimizer({{.name = "mu"}, {.name = "nu"}}),
      b1_(read_decay(config, "b1", 0.9)),
      b2_(read_decay(config, "b2", 0.999)),
      eps_(config.get<double>("eps", 1e-8)),
      eps_root_(config.get<double>("eps_root", 0.0)),
      bf16_(config.word("mu_dtype", "float32", {"float32", "bfloat16"}) == "bfloat16"),
      nesterov_(config.get<bool>("nesterov", false)) {
  if (!(eps_ >= 0)) config.problem("eps", fmt::format("must not be negative, got {}", eps_));
  if (!(eps_root_ >= 0)) {
    config.problem("eps_root", fmt::format("must not be negative, got {}", eps_root_));
  }
  if (static_cast<float>(eps_) == 0 && static_cast<float>(eps_root_) == 0) {
    config.problem("eps",
                   "must be positive in float32 (or eps_root): a zero gradient would give 0/0");
  }
  if (bf16_) set_slot_dtype(0, at::kBFloat16);
}

at::Tensor Adam::update(const FlatParams& params, std::span<const UpdateRange> ranges,
                        const StepScalars& scalars, const at::Tensor* ema) {
  if (bf16_) {
    return nesterov_ ? run<Bf16, true>(params, ranges, scalars, ema)
                     : run<Bf16, false>(params, ranges, scalars, ema);
  }
  return nesterov_ ? run<float, true>(params, ranges, scalars, ema)
                   : run<float, false>(params, ranges, scalars, ema);
}

Optimizer::RuleNumbers Adam::rule_numbers(int64_t count) const {
  return adam_numbers(b1_, b2_, count);
}

template <class Mu, bool kNesterov>
at::Tensor Adam::run(const FlatParams& params, std::span<const UpdateRange> ranges,
                     const StepScalars& scalars, const at::Tensor* ema) const {
  const auto b1 = static_cast<float>(b1_);
  const AdamRule<Mu, kNesterov> rule{
      .mu = static_cast<Mu*>(slots()[0].flat.mutable_data_ptr()),
      .nu = slots()[1].flat.mutable_data_ptr<float>(),
      .b1_stored = bf16_ ? static_cast<float>(c10::BFloat16(b1)) : b1,
      .b1 = b1,
      .rest1 = static_cast<float>(1 - b1_),
      .b2 = static_cast<float>(b2_),
      .rest2 = static_cast<float>(1 - b2_),
      .eps = static_cast<float>(eps_),
      .eps_root = static_cast<float>(eps_root_),
      .weight_decay = weight_decay_,
      .factor = factor_};
  return fused_update(rule, params, ranges, scalars, ema);
}

}  // namespace bv
