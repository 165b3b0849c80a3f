// momentum_hp, big_vision.momentum_hp: momentum with a trace in half precision, optax.py
// `momentum_hp` of big_vision. The shared implementation is lib/optim/momentum.{h,cc}.
#include "lib/optim/momentum.h"

namespace bv {
namespace {

constexpr TableText kMomentumHpText = {
    "SGD with momentum: the update is a running sum of gradients, stored in bfloat16 by "
    "default. It suits convolutional networks such as BiT.",
    "momentum: 0.9\nnesterov: true", "optax.py momentum_hp"};
constexpr KeyText kMomentumKeys[] = {
    {"momentum", "float 0..<1", "0.9",
     "Decay rate of the running sum of gradients. With m, updates grow to about 1 / (1 - m) times "
     "the gradient. It must be below 1."}};
const KeyTable momentum_hp_short_name_keys("optax: momentum_hp", kMomentumHpText, {}, kMomentumKeys,
                                           momentum_keys("dtype", "bfloat16"));
const KeyTable momentum_hp_full_name_keys("optax: big_vision.momentum_hp", kMomentumHpText, {},
                                          kMomentumKeys, momentum_keys("dtype", "bfloat16"));

struct MomentumHp : Momentum {
  explicit MomentumHp(const Config& config)
      : Momentum(config, "momentum", config.get<double>("momentum", 0.9), "dtype", "bfloat16") {}
};
const Register<Optimizer, MomentumHp> registered_momentum_hp("momentum_hp");
const Register<Optimizer, MomentumHp> registered_momentum_hp_full_name("big_vision.momentum_hp");

}  // namespace
}  // namespace bv
