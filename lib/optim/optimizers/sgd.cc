// Optimizers that use the gradient as the direction.
//   sgd: optax.sgd (its momentum is in lib/optim/momentum.{h,cc})
//     optax: {learning_rate,                optional factor, see optax_factor()
//             momentum: null,               decay of the trace; null: no momentum
//             nesterov: false,              true: Nesterov momentum
//             accumulator_dtype: float32}   float32 or bfloat16: how the trace is stored
//   scale: optax.scale
//     optax: {step_size}                    required factor
//   identity, big_vision.sgd: optax.identity; no keys. sgd without keys does the same.
#include "lib/optim/fused.h"
#include "lib/optim/momentum.h"

namespace bv {
namespace {

struct Sgd : Momentum {
  explicit Sgd(const Config& config)
      : Momentum(config, "momentum", config.maybe<double>("momentum"), "accumulator_dtype",
                 "float32") {
    factor_ = optax_factor(config);
  }
};
const Register<Optimizer, Sgd> registered("sgd");

class Identity : public Optimizer {
 public:
  explicit Identity(const Config&) : Optimizer({}) {}
  at::Tensor update(const FlatParams& params, std::span<const UpdateRange> ranges,
                    const StepScalars& scalars, const at::Tensor* ema) override {
    return fused_update(FactorRule{factor_}, params, ranges, scalars, ema);
  }

 protected:
  float factor_ = 1;
};
const Register<Optimizer, Identity> registered_identity("identity");
const Register<Optimizer, Identity> registered_full_name("big_vision.sgd");

struct Scale : Identity {
  explicit Scale(const Config& config) : Identity(config) {
    const auto step_size = config.get<double>("step_size");
    if (step_size < 0) {
      config.warn(
          "step_size",
          "a negative value makes the loss go up: the update is multiplied by step_size and "
          "then subtracted");
    }
    factor_ = static_cast<float>(step_size);
  }
};
const Register<Optimizer, Scale> registered_scale("scale");

}  // namespace
}  // namespace bv
