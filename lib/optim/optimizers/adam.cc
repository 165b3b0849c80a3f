// adam, adamw: optax.adam and optax.adamw. The shared implementation is lib/optim/adam.{h,cc}.
// The weight decay of adamw is that of Loshchilov and Hutter 2019.
//
// The optimizer multiplies by -learning_rate and the training step by -lr: see optax_factor().
#include "lib/optim/adam.h"

namespace bv {
namespace {

const KeyTable adam_keys(
    "optax: adam",
    {"Adam as optax.adam. Without `learning_rate` it is the same as `scale_by_adam`.",
     "b1: 0.9\nb2: 0.999", "optax.py make"},
    {}, kAdamKeys, kOptaxFactorKeys);

const KeyTable adamw_keys(
    "optax: adamw",
    {"Adam with built-in weight decay, as optax.adamw. The decay applies to every weight, "
     "including biases and norms, and scales with `lr`; `wd` decays only the weights that "
     "`wd_mults` selects.",
     "weight_decay: 0.05", "optax.py make"},
    {{"weight_decay", "float >= 0", "1e-4",
      "Weight decay of every weight. In each step a weight loses this fraction, multiplied by `lr` "
      "and the schedule; 0 turns it off. It adds to the `wd` of the config."}},
    kAdamKeys, kOptaxFactorKeys);

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
