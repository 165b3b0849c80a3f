// Where kernels write the gradients of weights. A run keeps the gradients of all parameters in one
// buffer. A kernel that writes there directly saves a copy.
#pragma once

#include <ATen/core/Tensor.h>

namespace bv {

class GradientMemory {
 public:
  virtual ~GradientMemory() = default;
  // Returns memory for the gradient of `weight`: a part of the buffer with the shape and strides of
  // `weight`, not initialized. `weight` must be a parameter or a view of all of its elements. A
  // parameter's memory is returned at most once per step, and only before its first gradient
  // arrives. Otherwise returns an undefined tensor.
  virtual at::Tensor take(const at::Tensor& weight) = 0;

  // While it lives, the kernels of this thread use `memory`.
  class Scope {
   public:
    explicit Scope(GradientMemory& memory);
    ~Scope();
    Scope(const Scope&) = delete;
  };
};

// Returns an uninitialized tensor like `weight`, in the gradient buffer if possible. The caller
// must write the gradient of `weight` to every element, and return the tensor to autograd.
at::Tensor new_gradient(const at::Tensor& weight);

}  // namespace bv
