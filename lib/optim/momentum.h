// Heavy-ball momentum without a (1 - momentum) factor: t = g + momentum * t, u = t, or with
// Nesterov's form u = g + momentum * t; times a factor. Kept in bfloat16, the coefficient of the
// stored trace is rounded to bfloat16 too (reference 6.2).
#pragma once

#include <optional>

#include "lib/optim/optimizer.h"

namespace bv {

class Momentum : public Optimizer {
 public:
  at::Tensor update(const FlatParams& params, std::span<const UpdateRange> ranges,
                    const StepScalars& scalars, const at::Tensor* ema) override;

 protected:
  // Reads `dtype_key`: float32 or bfloat16, and nesterov (false). A momentum of nullopt keeps no
  // trace: u = factor * g.
  Momentum(const Config& config, const char* momentum_key, std::optional<double> momentum,
           const char* dtype_key, const char* dtype);
  float factor_ = 1;

 private:
  template <class T, bool kNesterov>
  at::Tensor run(const FlatParams& params, std::span<const UpdateRange> ranges,
                 const StepScalars& scalars, const at::Tensor* ema) const;

  std::optional<double> momentum_;
  bool bf16_, nesterov_;
};

}  // namespace bv
