// trace: optax's of this name, heavy-ball momentum (lib/optim/momentum.h).
//   optax: {decay, nesterov: false, accumulator_dtype: float32}
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
