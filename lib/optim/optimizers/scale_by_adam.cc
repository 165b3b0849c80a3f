// scale_by_adam: Adam's direction (lib/optim/adam.h).
//   optax: {b1: 0.9, b2: 0.999, eps: 1e-8, eps_root: 0, mu_dtype: float32, nesterov: false}
#include "lib/optim/adam.h"

namespace bv {
namespace {

struct ScaleByAdam : Adam {
  explicit ScaleByAdam(const Config& config) : Adam(config) {}
};
const Register<Optimizer, ScaleByAdam> registered("scale_by_adam");

}  // namespace
}  // namespace bv
