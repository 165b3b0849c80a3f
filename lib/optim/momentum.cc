#include "lib/optim/momentum.h"

#include <c10/util/BFloat16.h>

#include "lib/optim/fused.h"

namespace bv {

Momentum::Momentum(const Config& config, const char* momentum_key, std::optional<double> momentum,
                   const char* dtype_key, const char* dtype)
    : Optimizer(momentum ? std::vector<Slot>{{.name = "trace"}} : std::vector<Slot>{}),
      momentum_(momentum),
      // An explicit null is float32, like None in optax.
      bf16_(!config.keep_null(dtype_key) &&
            config.word(dtype_key, dtype, {"float32", "bfloat16"}) == "bfloat16"),
      nesterov_(config.get<bool>("nesterov", false)) {
  if (!momentum) {
    if (nesterov_) config.warn("nesterov", fmt::format("has no effect without {}", momentum_key));
    return;
  }
  if (!(*momentum_ >= 0 && *momentum_ < 1)) {
    config.problem(momentum_key, fmt::format("must be at least 0 and below 1, got {}", *momentum_));
  }
  if (bf16_) set_slot_dtype(0, at::kBFloat16);
}

at::Tensor Momentum::update(const FlatParams& params, std::span<const UpdateRange> ranges,
                            const StepScalars& scalars, const at::Tensor* ema) {
  if (!momentum_) return fused_update(FactorRule{factor_}, params, ranges, scalars, ema);
  if (bf16_) {
    return nesterov_ ? run<Bf16, true>(params, ranges, scalars, ema)
                     : run<Bf16, false>(params, ranges, scalars, ema);
  }
  return nesterov_ ? run<float, true>(params, ranges, scalars, ema)
                   : run<float, false>(params, ranges, scalars, ema);
}

template <class T, bool kNesterov>
at::Tensor Momentum::run(const FlatParams& params, std::span<const UpdateRange> ranges,
                         const StepScalars& scalars, const at::Tensor* ema) const {
  const auto momentum = static_cast<float>(*momentum_);
  const MomentumRule<T, kNesterov> rule{
      .trace = static_cast<T*>(slots()[0].flat.mutable_data_ptr()),
      .stored = bf16_ ? static_cast<float>(c10::BFloat16(momentum)) : momentum,
      .momentum = momentum,
      .factor = factor_};
  return fused_update(rule, params, ranges, scalars, ema);
}

}  // namespace bv
