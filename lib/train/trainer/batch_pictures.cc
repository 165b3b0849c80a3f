#include "lib/train/trainer/batch_pictures.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace bv {

std::vector<Picture> batch_pictures(const at::Tensor& images, int64_t most) {
  constexpr int64_t kMostSide = 256;
  std::vector<Picture> pictures;
  if (images.dim() != 4 || images.numel() == 0) return pictures;
  at::Tensor values = images.narrow(0, 0, std::min(most, images.size(0))).to(at::kFloat);
  const int64_t channels = values.size(3);
  if (channels != 1 && channels != 3 && channels != 4) values = values.narrow(3, 0, 1);
  const at::Tensor finite = values.masked_select(values.isfinite());
  if (finite.numel() == 0) return pictures;
  const float least = finite.min().item<float>(), greatest = finite.max().item<float>();
  const float range = greatest > least ? greatest - least : 1;
  const at::Tensor bytes =
      ((values - least) / range * 255).nan_to_num(0, 255, 0).round().to(at::kByte).contiguous();
  for (const at::Tensor& image : bytes.unbind(0)) {
    const auto* data = image.const_data_ptr<uint8_t>();
    pictures.push_back(shrunk({image.size(0), image.size(1), image.size(2),
                               std::vector<uint8_t>(data, data + image.numel())},
                              kMostSide));
  }
  return pictures;
}

}  // namespace bv
