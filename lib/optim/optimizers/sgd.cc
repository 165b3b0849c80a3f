// The gradient itself, times a factor.
//   sgd       optax's: {learning_rate, momentum: null, nesterov: false, accumulator_dtype: float32}
//   scale     optax's: {step_size}
//   big_vision.sgd, identity   without keys
//
// optax's sgd multiplies by -learning_rate, and the chain around it by -lr: see optax_factor().
// Without `learning_rate` and `momentum`, sgd is the identity.
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
const Register<Optimizer, Identity> registered_seed_name("big_vision.sgd");

struct Scale : Identity {
  explicit Scale(const Config& config) : Identity(config) {
    factor_ = static_cast<float>(config.get<double>("step_size"));
  }
};
const Register<Optimizer, Scale> registered_scale("scale");

}  // namespace
}  // namespace bv
