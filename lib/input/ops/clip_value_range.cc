// clip_value_range(mean=..., std=...): (x - mean) / std with the statistics of CLIP's images.
//   mean, std  a number or one number per channel, for values in 0..255
// Keys: key, or inkey and outkey; "image" by default. Takes any real dtype, with the channels last;
// gives float32 of the same shape. Draws nothing.
// Follows big_vision's pp/ops_image.py `get_clip_value_range`.
#include "lib/input/ops/common/normalize_op.h"

namespace bv {
namespace {

class ClipValueRange : public NormalizeOp {
 public:
  explicit ClipValueRange(const Config& args) : NormalizeOp("clip_value_range") {
    read_mean_std(args, {0.48145466 * 255, 0.4578275 * 255, 0.40821073 * 255},
                  {0.26862954 * 255, 0.26130258 * 255, 0.27577711 * 255});
  }
};

const Register<Op, ClipValueRange> registered("clip_value_range");

}  // namespace
}  // namespace bv
