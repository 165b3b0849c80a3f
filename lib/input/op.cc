#include "lib/input/op.h"

namespace bv {

void Op::apply_decoded(Example& example, const at::Tensor& image, Rng& rng) const {
  check(false, "an op that does not decode was given a decoded image");
}

void Op::apply_batch(Example& batch, std::span<Rng> rngs) const {
  check(false, "an op without a batched form was given a batch");
}

}  // namespace bv
