#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace bv {

// Self-check of fused CUDA kernels: what a kernel computes, and the same with LibTorch's operators.
struct KernelCheck {
  using Compute = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)>;

  std::vector<at::Tensor> inputs;  // on the device; small, because its memory may be almost full
  Compute fused, plain;            // `plain` gets the inputs in float32
};

// Returns whether the fused kernel `name` is correct on `device`. The first call for a device
// computes the results and the gradients of all inputs in both ways, and the results once more
// without gradients, and waits for the device. If the two ways differ, it warns, and the caller
// must use LibTorch's operators. `fused` may call this function too: within it the answer is true.
bool fused_kernel_is_right(const char* name, c10::Device device,
                           const std::function<KernelCheck(c10::Device device)>& check);

// Returns the kernels that fused_kernel_is_right() has found wrong on `device` so far, in
// alphabetical order.
std::vector<std::string> wrong_kernels(c10::Device device);

// Returns a tensor of values between -1 and 1, to be used as an input. Different seeds give
// different values.
at::Tensor check_numbers(at::IntArrayRef shape, int64_t seed, c10::Device device,
                         at::ScalarType type = at::kFloat);

}  // namespace bv
