// Adam (Kingma and Ba 2015), with Dozat's Nesterov form on request, for the optimizers that contain
// it: u = factor * (m / (1 - b1^k) / (sqrt(v / (1 - b2^k) + eps_root) + eps) + weight_decay * p).
//
// With mu_dtype bfloat16 the decay of the stored first moment is rounded to bfloat16 (0.9 acts as
// 0.8984375), the sum is float32, and only the stored copy is rounded (reference 6.2).
#pragma once

#include "lib/optim/optimizer.h"

namespace bv {

class Adam : public Optimizer {
 public:
  at::Tensor update(const FlatParams& params, std::span<const UpdateRange> ranges,
                    const StepScalars& scalars, const at::Tensor* ema) override;

 protected:
  // Reads b1 (0.9), b2 (0.999), eps (1e-8), eps_root (0), mu_dtype (float32), nesterov (false).
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
