#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace bv {

// A tensor that a model computes once and does not train, such as a table of sines. It is copied to
// a device at its first use there. Later steps copy nothing: a copy from the host's memory would
// make the host wait, and could not be part of a graph (lib/train/step/step_graph.h).
class Constant {
 public:
  Constant() = default;
  explicit Constant(at::Tensor values);
  bool defined() const { return !copies_.empty(); }
  at::IntArrayRef sizes() const { return copies_.front().sizes(); }
  // Returns the values with the device and the type of `like`, without a gradient. It may be called
  // by one thread at a time.
  const at::Tensor& on(const at::TensorOptions& like) const;

 private:
  mutable std::vector<at::Tensor> copies_;  // the first one is what the constructor got
};

}  // namespace bv
