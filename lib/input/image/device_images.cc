#include "lib/input/image/device_images.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <limits>

#include "lib/device/cuda.h"
#include "lib/device/plain_kernels.h"

namespace bv {
namespace {

// Returns the per-channel numbers on the device of `like`. They are written there one by one: a
// copy from host memory would make the host wait, which a CUDA graph does not allow.
at::Tensor on_device(const std::vector<float>& values, const at::Tensor& like) {
  at::Tensor numbers = at::empty({static_cast<int64_t>(values.size())}, like.options());
  for (size_t i = 0; i < values.size(); ++i) numbers[static_cast<int64_t>(i)].fill_(values[i]);
  return numbers;
}

}  // namespace

ImagePass image_pass(const at::Tensor& bytes, const Normalization& normalization) {
  const float infinity = std::numeric_limits<float>::infinity();
  ImagePass pass{.images = bytes.size(0),
                 .width = bytes.numel() / std::max<int64_t>(bytes.size(0), 1),
                 .channels = static_cast<int>(normalization.low.size()),
                 .low = {},
                 .range = {},
                 .scale = normalization.scale,
                 .offset = normalization.offset,
                 .least = normalization.clip ? normalization.clip_min : -infinity,
                 .most = normalization.clip ? normalization.clip_max : infinity};
  std::copy(normalization.low.begin(), normalization.low.end(), pass.low);
  std::copy(normalization.range.begin(), normalization.range.end(), pass.range);
  return pass;
}

static_assert(Normalization::kMostOnDevice == ImagePass::kChannels);

at::Tensor plain_device_images(const at::Tensor& bytes, const Normalization& normalization,
                               const at::Tensor& mixup, const at::Tensor& before) {
  const auto normalized = [&](const at::Tensor& x) {
    at::Tensor y = x.to(at::kFloat);
    if (normalization.low.size() == 1)
      y.sub_(normalization.low[0]).div_(normalization.range[0]);
    else
      y.sub_(on_device(normalization.low, y)).div_(on_device(normalization.range, y));
    y.mul_(normalization.scale).add_(normalization.offset);
    if (normalization.clip) y.clamp_(normalization.clip_min, normalization.clip_max);
    return y;
  };
  at::Tensor images = normalized(bytes);
  if (!mixup.defined()) return images;
  const at::Tensor previous =
      at::cat({normalized(before), images.narrow(0, 0, images.size(0) - 1)});
  return images.mul_(mixup[0]).addcmul_(previous, mixup[1]);
}

at::Tensor device_images(const at::Tensor& bytes, const Normalization& normalization,
                         const at::Tensor& mixup, const at::Tensor& before) {
  if (bytes.is_cpu() && !mixup.defined()) return normalize(bytes, normalization);
  const bool has_kernel = bytes.is_cuda() && !plain_kernels() && bytes.is_contiguous() &&
                          normalization.low.size() <= ImagePass::kChannels;
  if (!has_kernel) return plain_device_images(bytes, normalization, mixup, before);
  static auto* const run = cuda_function<RunImagePass>("bvtrain_cuda_images");
  at::Tensor images = at::empty(bytes.sizes(), bytes.options().dtype(at::kFloat));
  const bool mixes = mixup.defined();
  const at::Tensor first = mixes ? before.contiguous() : bytes;
  run(image_pass(bytes, normalization), mixes ? mixup.const_data_ptr<float>() : nullptr,
      bytes.const_data_ptr<uint8_t>(), first.const_data_ptr<uint8_t>(),
      images.mutable_data_ptr<float>(), cuda_stream(bytes.device()));
  return images;
}

}  // namespace bv
