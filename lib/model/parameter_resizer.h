#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace bv {

// An optional interface of models that can use parameters stored in another size than their own
// (flexi_vit's patch kernels). Loading weights asks for it. Models without it only take parameters
// of their own size, except pos_embedding, which is resampled for every model.
class ParameterResizer {
 public:
  virtual ~ParameterResizer() = default;
  // Returns `value`, the stored parameter `name`, in the size that the model has; returns it
  // unchanged if the model cannot resize it. `value` may have any shape.
  virtual at::Tensor resize_parameter(const std::string& name, const at::Tensor& value) const = 0;
};

}  // namespace bv
