#include "lib/optim/optimizer.h"

namespace bv {

void Optimizer::allocate(const FlatParams& params, Group&) {
  for (Slot& slot : slots_) slot.flat = params.new_buffer(slot.dtype);
}

float optax_factor(const Config& config) {
  const auto rate = config.maybe<double>("learning_rate");
  if (!rate) return 1;
  if (*rate > 0) {
    config.warn(
        "learning_rate",
        "a positive value makes the loss go up: the update is multiplied by -learning_rate and "
        "then subtracted (as in big_vision); leave it out and set lr");
  }
  return -static_cast<float>(*rate);
}

}  // namespace bv
