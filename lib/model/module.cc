#include "lib/model/module.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>

#include "lib/model/meta_device.h"
#include "lib/model/model_size_limit.h"
#include "lib/util/error.h"

namespace bv {

at::Tensor Module::add_parameter(const std::string& name, std::vector<int64_t> shape, Init init,
                                 std::vector<int64_t> physical) {
  ModelSizeLimit::count(shape);
  const auto options =
      at::TensorOptions(at::kFloat).device(MetaDevice::active() ? at::kMeta : at::kCPU);
  at::Tensor tensor;
  if (physical.empty()) {
    tensor = at::empty(shape, options);
  } else {
    check(physical.size() == shape.size(), "parameter {}: {} dimensions, {} in the physical order",
          name, shape.size(), physical.size());
    // permute() would return a view. A view keeps its base alive, so this memory would stay even
    // after the parameter has moved to a flat buffer.
    std::vector<int64_t> strides(shape.size());
    int64_t stride = 1;
    for (size_t i = physical.size(); i-- > 0; stride *= shape.at(physical[i]))
      strides.at(physical[i]) = stride;
    tensor = at::empty_strided(shape, strides, options);
  }
  check(names_.insert(name).second, "two parameters {}", name);
  tensor.set_requires_grad(true);
  parameters_.push_back({name, tensor, std::move(init)});
  return tensor;
}

at::Tensor Module::add_buffer(const std::string& name, at::Tensor value) {
  return buffers_.emplace_back(name, std::move(value)).second;
}

void Module::note_batch_statistics(const at::Tensor& scale, const at::Tensor& bias) {
  batch_norms_.emplace_back(scale, bias);
}

bool Module::has_batch_statistics() const {
  return std::any_of(batch_norms_.begin(), batch_norms_.end(), [](const auto& norm) {
    return norm.first.requires_grad() || norm.second.requires_grad();
  });
}

bool Module::has_frozen_statistics() const {
  return std::any_of(batch_norms_.begin(), batch_norms_.end(), [](const auto& norm) {
    return !norm.first.requires_grad() && !norm.second.requires_grad();
  });
}

}  // namespace bv
