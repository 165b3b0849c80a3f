// Optimizers: one file each in optim/, named after `optax_name`; the keys of `optax` are their
// constructors' (reference section 6.1).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/config/registry.h"
#include "lib/distributed/group.h"
#include "lib/params/flat_params.h"

namespace bv {

// A range of the flat buffers whose parameters are updated alike. Places are multiples of
// FlatParams::kAlign.
struct UpdateRange {
  int64_t begin = 0, end = 0;  // in buffers of state
  int64_t data = 0, grad = 0;  // where `begin` lies in params.data() and params.grads()
  bool counts = true;          // in sums over ranks: what all update alike counts on one alone
  int schedule = 0;            // index into StepScalars::schedules
  float lr_mult = 1;
  float weight_decay = 0;  // wd times its multiplier
};

// What varies from step to step, and the constants of the chain around the optimizer.
struct StepScalars {
  int64_t count = 0;  // updates done before this one
  float lr = 1;
  std::vector<float> schedules;  // their values at `count`
  // Clipping to a global norm, that is the root of grad_squares (() float64 on the parameters'
  // device): where clip_norm > 0 and the norm >= clip_norm, the gradient is (g / norm) * clip_norm.
  float clip_norm = 0;
  at::Tensor grad_squares = {};
  float ema_decay = 0;
};

class Optimizer {
 public:
  using Registry = bv::Registry<Optimizer>;
  static constexpr const char* kKind = "optimizer";
  virtual ~Optimizer() = default;

  // State that is kept per parameter: a buffer of FlatParams::state_size().
  struct Slot {
    std::string name;  // "mu", as in checkpoints: opt/mu/<parameter>
    at::ScalarType dtype = at::kFloat;
    at::Tensor flat = {};
  };
  const std::vector<Slot>& slots() const { return slots_; }
  // State of other shapes, by its name in checkpoints below opt/: "v_row/<parameter>".
  using Named = std::vector<std::pair<std::string, at::Tensor>>;
  virtual Named other_state() const { return {}; }
  // Gives every slot its zeroed buffer, and other state its memory; once, before the first update.
  // `group` (null: of one) is there for rules that need a parameter's whole gradient.
  virtual void allocate(const FlatParams& params, Group* group = nullptr);

  // One step of the whole chain of section 6 on params.data(), from params.grads(): clip, this
  // optimizer's rule, * lr, * lr_mult, + weight_decay * p, * schedule, * -1, add. Where `ema` is
  // given (a buffer of state), also ema = d * ema + (1 - d) * p. Returns (2) float64 on the
  // parameters' device: sums of squares over the ranges that count, of the parameters after the
  // update, and of what was added to them. Reads nothing back from a device.
  virtual at::Tensor update(const FlatParams& params, std::span<const UpdateRange> ranges,
                            const StepScalars& scalars, const at::Tensor* ema) = 0;

 protected:
  explicit Optimizer(std::vector<Slot> slots) : slots_(std::move(slots)) {}
  // Before allocate().
  void set_slot_dtype(size_t slot, at::ScalarType dtype) { slots_.at(slot).dtype = dtype; }

 private:
  std::vector<Slot> slots_;
};

// -learning_rate, the factor that optax's own optimizers (sgd, adam, adamw) multiply their
// direction by; 1 without the key. As the chain multiplies by -1 again, only a negative
// learning_rate descends: that is big_vision's arithmetic, kept, with a warning for a positive one.
float optax_factor(const Config& config);

}  // namespace bv
