// trace: momentum, optax.trace. The shared implementation is lib/optim/momentum.{h,cc}.
//   optax: {decay,                        required: decay of the trace
//           nesterov: false,              true: Nesterov momentum
//           accumulator_dtype: float32}   float32 or bfloat16: how the trace is stored
#include "lib/optim/momentum.h"

namespace bv {
namespace {

struct Trace : Momentum {
  explicit Trace(const Config& config)
      : Momentum(config, "decay", config.get<double>("decay"), "accumulator_dtype", "float32") {}
};
const Register<Optimizer, Trace> registered("trace");

}  // namespace
}  // namespace bv
