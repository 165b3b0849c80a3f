#include "lib/export/weights_writer.h"

#include "lib/ckpt/layouts/layouts.h"
#include "lib/util/text.h"

namespace bv {

const at::Tensor& trained_parameter(const TrainedModel& trained, const std::string& name) {
  const auto found = trained.params.find(name);
  if (found == trained.params.end())
    throw Error(Exit::usage, trained.origin, "the model has no parameter " + name);
  if (found->second.numel() == 0) {  // a checkpoint may be from anywhere
    throw Error(Exit::usage, trained.origin,
                fmt::format("'{}' has shape {}, which no model has", name,
                            shape_text(found->second.sizes())));
  }
  return found->second;
}

const at::Tensor& trained_buffer(const TrainedModel& trained, const std::string& name) {
  const auto found = trained.buffers.find(name);
  if (found == trained.buffers.end())
    throw Error(Exit::usage, trained.origin, "the model has no buffer " + name);
  return found->second;
}

ImageSize known_image(const TrainedModel& trained, const at::Tensor& kernel) {
  expect_dimensions("the first kernel", kernel, 4, trained.origin);
  if (trained.image.height < 1 || trained.image.width < 1) {
    throw Error(Exit::usage, trained.origin,
                "the size of the model's images is not known; give --image-size HEIGHT,WIDTH");
  }
  return {trained.image.height, trained.image.width, kernel.size(2)};
}

}  // namespace bv
