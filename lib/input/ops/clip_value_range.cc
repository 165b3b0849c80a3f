// clip_value_range: (x - mean) / std with CLIP's statistics, as float32. pp: "clip_value_range"
// Reference section 12.3.
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
