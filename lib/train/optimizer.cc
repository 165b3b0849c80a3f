#include "lib/train/optimizer.h"

namespace bv {

void Optimizer::allocate(const FlatParams& params) {
  for (Slot& slot : slots_) slot.flat = params.new_buffer(slot.dtype);
}

}  // namespace bv
