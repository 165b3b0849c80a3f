// Lets the first gradient of a step overwrite the gradient buffer. Otherwise each step would zero
// the buffer, and autograd would add to it.
//
// begin() unsets the gradient of each parameter. Before autograd hands a gradient to a parameter
// that has none, a hook copies it into the buffer, unless a kernel wrote it there
// (lib/model/gradient_memory.h). It then gives autograd the view of the buffer, which autograd
// keeps as the gradient without a copy. Autograd adds later gradients of the step to it, in place.
#pragma once

#include <unordered_map>
#include <vector>

#include "lib/model/gradient_memory.h"
#include "lib/params/flat_params.h"

namespace bv {

class FirstGradients : public GradientMemory {
 public:
  // Registers a hook on each trainable parameter, except on those of zero2 and fsdp, whose whole
  // gradients are not in the buffer.
  explicit FirstGradients(const FlatParams& params);
  ~FirstGradients() override;
  FirstGradients(const FirstGradients&) = delete;

  // Call before the first backward pass of a step.
  void begin();
  // Call after the last backward pass. Zeroes the gradients that did not arrive. Throws
  // std::logic_error if a gradient is not in the buffer.
  void finish();

  at::Tensor take(const at::Tensor& weight) override;

 private:
  struct Slot {
    at::Tensor parameter, home;  // `home`: the gradient's view of the buffer
    bool empty = false;          // no gradient has arrived in this step
    bool taken = false;          // take() was called in this step
    unsigned hook = 0;
  };
  static at::Tensor arrive(Slot& slot, const at::Tensor& gradient);

  std::vector<Slot> slots_;
  std::unordered_map<const void*, Slot*> by_memory_;  // of the parameter
};

}  // namespace bv
