#include "lib/model/constant.h"

#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>

#include <utility>

namespace bv {

Constant::Constant(at::Tensor values) { copies_.push_back(std::move(values)); }

const at::Tensor& Constant::on(const at::TensorOptions& like) const {
  const c10::Device device = like.device();
  const c10::ScalarType type = c10::typeMetaToScalarType(like.dtype());
  for (const at::Tensor& copy : copies_)
    if (copy.device() == device && copy.scalar_type() == type) return copy;
  // An evaluator may call this first. Autograd cannot save tensors that were made in InferenceMode.
  const c10::InferenceMode ordinary(false);
  const c10::AutoGradMode no_grad(false);
  copies_.push_back(copies_.front().to(device, type));
  return copies_.back();
}

}  // namespace bv
