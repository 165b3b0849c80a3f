// scale_by_adam: Adam's direction, optax.scale_by_adam. The shared implementation is
// lib/optim/adam.{h,cc}; optax.adam and optax.adamw are in adam.cc.
#include "lib/optim/adam.h"

namespace bv {
namespace {

const KeyTable scale_by_adam_keys(
    "optax: scale_by_adam",
    {"Adam, which divides the average gradient of each weight by the root of its "
     "mean square. It is the usual choice for transformers; with `wd` it is AdamW.",
     "b2: 0.95\nmu_dtype: bfloat16", "optax.py make"},
    {}, kAdamKeys);

struct ScaleByAdam : Adam {
  explicit ScaleByAdam(const Config& config) : Adam(config) {}
};
const Register<Optimizer, ScaleByAdam> registered_scale_by_adam("scale_by_adam");

}  // namespace
}  // namespace bv
