// Momentum as in optax.trace: t = g + momentum * t, without a factor of (1 - momentum); u = t, or
// with Nesterov momentum u = g + momentum * t; then u is multiplied by a factor. The optimizers
// sgd, trace and momentum_hp (lib/optim/optimizers/) derive from it.
//
// A trace stored in bfloat16 is multiplied by `momentum` rounded to bfloat16, as in JAX
// (docs/fidelity.md).
#pragma once

#include <array>
#include <optional>

#include "lib/optim/optimizer.h"

namespace bv {

// The rows of the keys that Momentum reads besides its momentum.
constexpr std::array<KeyText, 2> momentum_keys(std::string_view dtype_key, std::string_view dtype) {
  return {{{"nesterov", "bool", "false",
            "Whether to use Nesterov momentum. It often trains a little faster."},
           {dtype_key, "'float32' | 'bfloat16'", dtype,
            "Data type of the stored sum of gradients. `bfloat16` saves half its memory, 2 bytes "
            "per weight, and loses some precision. With null it is `float32`."}}};
}

class Momentum : public Optimizer {
 public:
  at::Tensor update(const FlatParams& params, std::span<const UpdateRange> ranges,
                    const StepScalars& scalars, const at::Tensor* ema) override;

 protected:
  // Reads momentum_keys(dtype_key, dtype). `momentum` is the value of `momentum_key`, the key that
  // messages name. Without a momentum there is no trace: u = factor * g.
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
