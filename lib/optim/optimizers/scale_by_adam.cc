// scale_by_adam: Adam's direction, optax.scale_by_adam. The shared implementation is
// lib/optim/adam.{h,cc}; optax.adam and optax.adamw are in adam.cc.
//   optax: {b1: 0.9, b2: 0.999,   decay of the first and of the second moment
//           eps: 1e-8,            added to the square root of the second moment
//           eps_root: 0,          added to the second moment below the square root
//           mu_dtype: float32,    float32 or bfloat16: how the first moment is stored
//           nesterov: false}      true: Nesterov momentum
#include "lib/optim/adam.h"

namespace bv {
namespace {

struct ScaleByAdam : Adam {
  explicit ScaleByAdam(const Config& config) : Adam(config) {}
};
const Register<Optimizer, ScaleByAdam> registered("scale_by_adam");

}  // namespace
}  // namespace bv
