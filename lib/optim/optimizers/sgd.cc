// Optimizers that use the gradient as the direction.
//   sgd: optax.sgd (its momentum is in lib/optim/momentum.{h,cc})
//   scale: optax.scale
//   identity, big_vision.sgd: optax.identity
#include "lib/optim/fused.h"
#include "lib/optim/momentum.h"

namespace bv {
namespace {

const KeyTable sgd_keys(
    "optax: sgd",
    {"Stochastic gradient descent, as optax.sgd: with momentum if it is given, otherwise the "
     "update is the gradient.",
     "momentum: 0.9\nnesterov: true", "optax.py make"},
    {{"momentum", "float 0..<1", "none",
      "Decay rate of the running sum of gradients; 0.9 is common. With m, updates grow to about 1 "
      "/ (1 - m) times the gradient. It must be below 1; without it there is no running sum, and "
      "`nesterov` and `accumulator_dtype` have no effect.",
      "0.9"}},
    momentum_keys("accumulator_dtype", "float32"), kOptaxFactorKeys);

constexpr TableText kPlainText = {
    "Plain gradient descent: the update is the gradient. It also suits runs that only evaluate.",
    "", "optax.py make"};
const KeyTable identity_keys("optax: identity", kPlainText, {});
const KeyTable plain_sgd_keys("optax: big_vision.sgd", kPlainText, {});

const KeyTable scale_keys(
    "optax: scale",
    {"Gradient descent whose update is the gradient times a fixed number, as optax.scale.",
     "step_size: 0.5", "optax.py make"},
    {{"step_size", "float", "required",
      "Factor of the gradients, besides `lr`. A negative one makes the loss go up and causes a "
      "warning.",
      "0.5"}});

struct Sgd : Momentum {
  explicit Sgd(const Config& config)
      : Momentum(config, "momentum", config.maybe<double>("momentum"), "accumulator_dtype",
                 "float32") {
    factor_ = optax_factor(config);
  }
};
const Register<Optimizer, Sgd> registered_sgd("sgd");

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
const Register<Optimizer, Identity> registered_sgd_full_name("big_vision.sgd");

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
