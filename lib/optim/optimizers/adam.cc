// adam, adamw: optax.adam and optax.adamw. The shared implementation is lib/optim/adam.{h,cc}.
//   optax: {learning_rate,        optional; without it adam is the same as scale_by_adam
//           b1: 0.9, b2: 0.999, eps: 1e-8, eps_root: 0, mu_dtype: float32, nesterov: false,
//                                 see scale_by_adam.cc
//           weight_decay: 1e-4}   adamw only: decoupled weight decay of every parameter
//                                 (Loshchilov and Hutter 2019), besides the config's `wd`
//
// The optimizer multiplies by -learning_rate and the training step by -lr: see optax_factor().
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
