// convert_to_video(num_frames): a video whose first frame is the image; the other frames are zeros.
// Keys: key, or inkey and outkey; "image" by default. Takes (height, width, channels) of any dtype,
// gives (num_frames, height, width, channels) of the same dtype. Draws nothing.
// Follows big_vision's pp/ops_image.py `get_convert_to_video`.
#include <ATen/ops/zeros.h>

#include <cstring>

#include "lib/input/ops/common/image_op.h"

namespace bv {
namespace {

class ConvertToVideo : public ImageOp {
 public:
  explicit ConvertToVideo(const Config& args)
      : ImageOp("convert_to_video"), num_frames_(args.get<int64_t>("num_frames")) {
    keys_ = InOutKeys(args);
    if (num_frames_ < 1 || num_frames_ > kMaxFrames) {
      args.problem("num_frames",
                   fmt::format("must be within 1 .. {}, got {}", kMaxFrames, num_frames_));
    }
  }

 private:
  static constexpr int64_t kMaxFrames = 4096;

  at::Tensor map_images(const Images& images, std::span<Rng>) const override {
    std::vector<int64_t> shape = {num_frames_, images.height, images.width, images.channels};
    if (images.batched) shape.insert(shape.begin(), images.count);
    at::Tensor out = at::zeros(shape, images.tensor.options());
    const int64_t bytes = images.height * images.width * images.pixel_bytes();
    for (int64_t i = 0; i < images.count; ++i) {
      std::memcpy(image_bytes(out, i, images.count), images.bytes(i), bytes);
    }
    return out;
  }

  const int64_t num_frames_;
};

const Register<Op, ConvertToVideo> registered("convert_to_video");

}  // namespace
}  // namespace bv
