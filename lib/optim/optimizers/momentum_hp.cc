// momentum_hp, big_vision.momentum_hp: momentum with a trace in half precision, optax.py
// `momentum_hp` of big_vision. The shared implementation is lib/optim/momentum.{h,cc}.
//   optax: {momentum: 0.9,      decay of the trace
//           dtype: bfloat16,    float32 or bfloat16: how the trace is stored
//           nesterov: false}    true: Nesterov momentum
#include "lib/optim/momentum.h"

namespace bv {
namespace {

struct MomentumHp : Momentum {
  explicit MomentumHp(const Config& config)
      : Momentum(config, "momentum", config.get<double>("momentum", 0.9), "dtype", "bfloat16") {}
};
const Register<Optimizer, MomentumHp> registered("momentum_hp");
const Register<Optimizer, MomentumHp> registered_full_name("big_vision.momentum_hp");

}  // namespace
}  // namespace bv
