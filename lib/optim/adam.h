// Adam (Kingma and Ba 2015), optionally with Nesterov momentum (Dozat 2016). The optimizers
// scale_by_adam, adam and adamw (lib/optim/optimizers/) derive from it. With k the number of the
// update, from 1:
//   m = b1 * m + (1 - b1) * g;  v = b2 * v + (1 - b2) * g^2
//   u = factor * (m / (1 - b1^k) / (sqrt(v / (1 - b2^k) + eps_root) + eps) + weight_decay * p)
//
// With mu_dtype bfloat16, m is stored in bfloat16 and b1 is rounded to bfloat16 where it multiplies
// the stored m (0.9 becomes 0.8984375), as in optax (docs/fidelity.md). The sum is float32.
#pragma once

#include "lib/optim/optimizer.h"

namespace bv {

inline constexpr KeyText kAdamKeys[] = {
    {"b1", "float 0..<1", "0.9",
     "Decay rate of the average gradient (first moment). A larger value gives smoother and slower "
     "updates; it must be below 1."},
    {"b2", "float 0..<1", "0.999",
     "Decay rate of the average squared gradient (second moment). Large batches and transformers "
     "often train more stably with 0.95; it must be below 1."},
    {"eps", "float >= 0", "1e-8",
     "Added to the root of the average squared gradient, so that tiny gradients do not cause large "
     "steps. It may be 0 only if `eps_root` is not."},
    {"eps_root", "float >= 0", "0",
     "Added to the average squared gradient before the square root. It is rarely needed."},
    {"mu_dtype", "'float32' | 'bfloat16'", "float32",
     "Data type of the stored average gradient. `bfloat16` saves half its memory, 2 bytes per "
     "weight, and loses some precision."},
    {"nesterov", "bool", "false", "Whether to use Nesterov momentum with the average gradient."}};

// Returns the value of `key`, or `fallback` if the config does not have it. Records a problem if
// the value is not at least 0 and below 1.
double read_decay(const Config& config, const char* key, double fallback);

// Returns Optimizer::rule_numbers() for an AdamRule.
Optimizer::RuleNumbers adam_numbers(double b1, double b2, int64_t count);

class Adam : public Optimizer {
 public:
  at::Tensor update(const FlatParams& params, std::span<const UpdateRange> ranges,
                    const StepScalars& scalars, const at::Tensor* ema) override;
  RuleNumbers rule_numbers(int64_t count) const override;

 protected:
  // Reads kAdamKeys, those of optax.scale_by_adam.
  explicit Adam(const Config& config);
  float weight_decay_ = 0;
  float factor_ = 1;

 private:
  template <class Mu, bool kNesterov>
  at::Tensor run(const FlatParams& params, std::span<const UpdateRange> ranges,
                 const StepScalars& scalars, const at::Tensor* ema) const;

  double b1_, b2_, eps_, eps_root_;
  bool bf16_, nesterov_;
};

}  // namespace bv
