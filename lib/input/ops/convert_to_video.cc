// The op convert_to_video. Draws no random numbers.
#include <ATen/ops/zeros.h>

#include <cstring>

#include "lib/config/key_table.h"
#include "lib/input/ops/common/image_op.h"

namespace bv {
namespace {

const KeyTable convert_to_video_keys(
    "pp: convert_to_video",
    {"Turns an image into a video: the image is the first frame, all others are zero. It changes "
     "'image' from (height, width, channels) of any type to (frames, height, width, channels) of "
     "the same type.",
     "convert_to_video(16)", "pp/ops_image.py get_convert_to_video"},
    {{"num_frames", "int 1..4096", "required",
      "Number of frames. With 1, the video is the image alone. A video may take at most 4 GiB."}},
    in_out_key_texts());

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
    check_result(shape, images.tensor.element_size());
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

const Register<Op, ConvertToVideo> registered_convert_to_video("convert_to_video");

}  // namespace
}  // namespace bv
