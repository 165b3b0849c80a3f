// Where kernels write the gradients of weights. A run keeps the gradients of all parameters in one
// buffer. A kernel that writes there directly saves a copy.
#pragma once

#include <ATen/core/Tensor.h>

namespace bv {

class GradientMemory {
 public:
  virtual ~GradientMemory() = default;
  // Returns memory for the gradient of `weight`, of its shape and strides, if `weight` is a
  // parameter or a view of all of it. The memory is not initialised. Returns an undefined tensor
  // for any other tensor, and if this step has called take() for the parameter or has a gradient of
  // it.
  virtual at::Tensor take(const at::Tensor& weight) = 0;

  // While it lives, the kernels of this thread use `memory`.
  class Scope {
   public:
    explicit Scope(GradientMemory& memory);
    ~Scope();
    Scope(const Scope&) = delete;
  };
};

// Returns a tensor like `weight`, to which the caller must write all of the gradient of `weight`
// and which it must return to autograd. It is in the buffer of gradients if that is possible, and
// not initialised.
at::Tensor new_gradient(const at::Tensor& weight);

}  // namespace bv
