// Adam (Kingma and Ba 2015), with Nesterov momentum (Dozat 2016) if asked for. The optimizers
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

class Adam : public Optimizer {
 public:
  at::Tensor update(const FlatParams& params, std::span<const UpdateRange> ranges,
                    const StepScalars& scalars, const at::Tensor* ema) override;

 protected:
  // Reads the keys of optax.scale_by_adam; lib/optim/optimizers/scale_by_adam.cc lists them.
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
