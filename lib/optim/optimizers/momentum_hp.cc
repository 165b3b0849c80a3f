// momentum_hp: heavy-ball momentum (lib/optim/momentum.h), the trace kept in bfloat16 unless told
// otherwise (reference 6.1, 6.2).
//   optax: {momentum: 0.9, dtype: bfloat16, nesterov: false}
#include "lib/optim/momentum.h"

namespace bv {
namespace {

struct MomentumHp : Momentum {
  explicit MomentumHp(const Config& config)
      : Momentum(config, "momentum", config.get<double>("momentum", 0.9), "dtype", "bfloat16") {}
};
const Register<Optimizer, MomentumHp> registered("momentum_hp");
const Register<Optimizer, MomentumHp> registered_seed_name("big_vision.momentum_hp");

}  // namespace
}  // namespace bv
