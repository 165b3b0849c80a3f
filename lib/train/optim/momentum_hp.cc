// momentum_hp: heavy-ball momentum without a (1 - momentum) factor, the trace kept in bfloat16
// unless told otherwise (reference 6.1, 6.2).
//   optax: {momentum: 0.9, dtype: bfloat16, nesterov: false}
#include <c10/util/BFloat16.h>

#include "lib/train/fused.h"

namespace bv {
namespace {

template <class T, bool kNesterov>
struct MomentumRule {
  T* trace;
  float stored, momentum;  // coefficient of the stored trace (rounded as it is), and the exact one

  [[gnu::always_inline]] void block(const Block& x, Block& u, int64_t at) const {
    T* t = trace + at;
    alignas(64) Block sum;
#pragma GCC ivdep
    for (int64_t i = 0; i < kBlock; ++i) sum[i] = x[i] + stored * load(t[i]);
#pragma GCC ivdep
    for (int64_t i = 0; i < kBlock; ++i) store(t[i], sum[i]);
    for (int64_t i = 0; i < kBlock; ++i) u[i] = kNesterov ? x[i] + momentum * sum[i] : sum[i];
  }
};

class MomentumHp : public Optimizer {
 public:
  explicit MomentumHp(const Config& config)
      : Optimizer({{.name = "trace"}}),
        momentum_(config.get<double>("momentum", 0.9)),
        bf16_(config.word("dtype", "bfloat16", {"float32", "bfloat16"}) == "bfloat16"),
        nesterov_(config.get<bool>("nesterov", false)) {
    if (!(momentum_ >= 0 && momentum_ < 1)) {
      config.problem("momentum", fmt::format("must be at least 0 and below 1, got {}", momentum_));
    }
    if (bf16_) set_slot_dtype(0, at::kBFloat16);
  }

  UpdateSums update(const FlatParams& params, std::span<const UpdateRange> ranges,
                    const StepScalars& scalars, const at::Tensor* ema) override {
    if (bf16_) {
      return nesterov_ ? run<Bf16, true>(params, ranges, scalars, ema)
                       : run<Bf16, false>(params, ranges, scalars, ema);
    }
    return nesterov_ ? run<float, true>(params, ranges, scalars, ema)
                     : run<float, false>(params, ranges, scalars, ema);
  }

 private:
  template <class T, bool kNesterov>
  UpdateSums run(const FlatParams& params, std::span<const UpdateRange> ranges,
                 const StepScalars& scalars, const at::Tensor* ema) const {
    const auto momentum = static_cast<float>(momentum_);
    const MomentumRule<T, kNesterov> rule{
        .trace = static_cast<T*>(slots()[0].flat.mutable_data_ptr()),
        .stored = bf16_ ? static_cast<float>(c10::BFloat16(momentum)) : momentum,
        .momentum = momentum};
    return fused_update(rule, params, ranges, scalars, ema);
  }

  double momentum_;
  bool bf16_, nesterov_;
};
const Register<Optimizer, MomentumHp> registered("momentum_hp");
const Register<Optimizer, MomentumHp> registered_seed_name("big_vision.momentum_hp");

}  // namespace
}  // namespace bv
