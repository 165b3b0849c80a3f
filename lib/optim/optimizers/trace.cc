// trace: momentum, optax.trace. The shared implementation is lib/optim/momentum.{h,cc}.
#include "lib/optim/momentum.h"

namespace bv {
namespace {

const KeyTable trace_keys(
    "optax: trace",
    {"SGD with momentum, as optax.trace: the update is a running sum of gradients.", "decay: 0.9",
     "optax.py make"},
    {{"decay", "float 0..<1", "required",
      "Decay rate of the running sum of gradients. With d, updates grow to about 1 "
      "/ (1 - d) times the gradient. It must be below 1.",
      "0.9"}},
    momentum_keys("accumulator_dtype", "float32"));

struct Trace : Momentum {
  explicit Trace(const Config& config)
      : Momentum(config, "decay", config.get<double>("decay"), "accumulator_dtype", "float32") {}
};
const Register<Optimizer, Trace> registered_trace("trace");

}  // namespace
}  // namespace bv
