#include "lib/optim/optimizer.h"

namespace bv {

void Optimizer::allocate(const FlatParams& params, Group*) {
  for (Slot& slot : slots_) slot.flat = params.new_buffer(slot.dtype);
}

float optax_factor(const Config& config) {
  const auto rate = config.maybe<double>("learning_rate");
  if (!rate) return 1;
  if (*rate > 0) {
    config.warn("learning_rate",
                "multiplies by -learning_rate before the update is subtracted, so a positive one "
                "ascends (as in big_vision); leave it out and set lr");
  }
  return -static_cast<float>(*rate);
}

}  // namespace bv
