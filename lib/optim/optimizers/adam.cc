// adam, adamw: optax's of these names, as a big_vision config can name them.
//   optax: {learning_rate, b1: 0.9, b2: 0.999, eps: 1e-8, eps_root: 0, mu_dtype: float32,
//           nesterov: false}; adamw also {weight_decay: 1e-4}, of every parameter (Loshchilov and
//           Hutter 2019).
//
// optax's multiplies by -learning_rate, and the chain around it by -lr: see optax_factor().
// Without `learning_rate`, adam is scale_by_adam.
#include "lib/optim/adam.h"

namespace bv {
namespace {

struct PlainAdam : Adam {
  explicit PlainAdam(const Config& config) : Adam(config) { factor_ = optax_factor(config); }
};
const Register<Optimizer, PlainAdam> registered_adam("adam");

struct AdamW : PlainAdam {
  explicit AdamW(const Config& config) : PlainAdam(config) {
    weight_decay_ = static_cast<float>(config.get<double>("weight_decay", 1e-4));
    if (!(weight_decay_ >= 0)) config.problem("weight_decay", "must not be negative");
  }
};
const Register<Optimizer, AdamW> registered_adamw("adamw");

}  // namespace
}  // namespace bv
