// The interface of optimizers. Each optimizer is a file in lib/optim/optimizers/, registered under
// the names that the config key `optax_name` accepts; its constructor reads the section `optax`.
// Follows optax.py `make` of big_vision.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/config/key_table.h"
#include "lib/config/registry.h"
#include "lib/distributed/group.h"
#include "lib/optim/rules/rule.h"
#include "lib/params/flat_params.h"

namespace bv {

// A range of the flat buffers whose elements share a schedule, a learning rate multiplier and a
// weight decay. Offsets are in elements and are multiples of FlatParams::kAlign.
struct UpdateRange {
  int64_t begin = 0, end = 0;  // in a state buffer
  int64_t data = 0, grad = 0;  // offsets of `begin` in params.data() and params.grads()
  // Whether this rank adds the range to the sums of squares that update() returns. Only one rank
  // counts a range that several ranks update in the same way.
  bool counts = true;
  int schedule = 0;  // index of FusedNumbers::schedule()
  float lr_mult = 1;
  float weight_decay = 0;  // wd times its multiplier
};

// The numbers of one step that do not differ between parameters.
struct StepScalars {
  float lr = 1;
  // If clip_norm > 0 and the global norm of the gradients is not below it, a gradient g becomes
  // (g / norm) * clip_norm. grad_squares is the square of the norm: () float64 on the parameters'
  // device; it is unused without clipping.
  float clip_norm = 0;
  at::Tensor grad_squares = {};
  // Those that change from step to step, in the order of FusedNumbers: float32 on the parameters'
  // device (lib/optim/step_numbers.h).
  at::Tensor numbers = {};
};

class Optimizer {
 public:
  using Registry = bv::Registry<Optimizer>;
  static constexpr const char* kKind = "optimizer";
  virtual ~Optimizer() = default;

  // State with one value per element of the parameters, such as a momentum.
  struct Slot {
    std::string name;  // "mu"; a checkpoint stores it as opt/mu/<parameter>
    at::ScalarType dtype = at::kFloat;
    at::Tensor flat = {};  // (FlatParams::state_size())
  };
  const std::vector<Slot>& slots() const { return slots_; }
  // Returns the state that is not in slots(), because its shapes differ from those of the
  // parameters. It is float32. Every rank holds all of it, even if the slots are sharded. Each name
  // is what follows "opt/" in a checkpoint: "v_row/<parameter>".
  using Named = std::vector<std::pair<std::string, at::Tensor>>;
  virtual Named other_state() const { return {}; }
  // Returns how many values of other_state() belong to a parameter of this shape. May be called
  // before allocate().
  virtual int64_t other_elements(at::IntArrayRef shape) const { return 0; }

  // Allocates all state, filled with zeros. Call once, before the first update. Optimizers that
  // need the full gradient of a sharded parameter use `group`, which must outlive this object.
  virtual void allocate(const FlatParams& params, Group& group = Group::single());

  // Returns the numbers that the rule needs in the update after `count` others, such as the bias
  // corrections of Adam. The kernel reads them from FusedNumbers::rule(). update() itself does not
  // know the count: a step that is recorded as a graph gets the same arguments in each update.
  using RuleNumbers = std::array<float, FusedNumbers::kRule>;
  virtual RuleNumbers rule_numbers(int64_t count) const { return {}; }

  // Updates params.data() from params.grads(), for one step:
  //   u = rule(clipped gradient);  u = u * lr * lr_mult + weight_decay * p;  p += -u * schedule.
  // If `ema` (a float32 state buffer) is not null, also ema = d * ema + (1 - d) * p. Returns a
  // tensor of shape (2), float64, on the parameters' device: the sum of squares of the updated
  // parameters, and that of the updates, over the ranges that count. Never waits for the device.
  virtual at::Tensor update(const FlatParams& params, std::span<const UpdateRange> ranges,
                            const StepScalars& scalars, const at::Tensor* ema) = 0;
  // Returns whether update() overwrites gradients in params.grads() with directions of the update.
  virtual bool replaces_gradients() const { return false; }

 protected:
  explicit Optimizer(std::vector<Slot> slots) : slots_(std::move(slots)) {}
  // Call before allocate().
  void set_slot_dtype(size_t slot, at::ScalarType dtype) { slots_.at(slot).dtype = dtype; }

 private:
  std::vector<Slot> slots_;
};

// Returns the factor of optax's own optimizers (sgd, adam, adamw): -learning_rate, or 1 if the key
// is absent. big_vision's chain multiplies by -1 again, so only a negative learning_rate descends;
// this function keeps that arithmetic and warns about a positive one.
float optax_factor(const Config& config);
inline constexpr KeyText kOptaxFactorKeys[] = {
    {"learning_rate", "float", "none",
     "Leave it out, and set `lr` instead. big_vision requires this key. Like big_vision, bvtrain "
     "multiplies the update by -learning_rate and then subtracts the result. A positive value "
     "therefore makes the loss go up and causes a warning; -1 is the same as leaving it out."}};

}  // namespace bv
