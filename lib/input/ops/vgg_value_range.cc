// vgg_value_range: (x - mean) / std with ImageNet's statistics, as float32. pp: "vgg_value_range"
// Reference section 12.3.
#include "lib/input/ops/common/normalize_op.h"

namespace bv {
namespace {

class VggValueRange : public NormalizeOp {
 public:
  explicit VggValueRange(const Config& args) : NormalizeOp("vgg_value_range") {
    read_mean_std(args, {0.485 * 255, 0.456 * 255, 0.406 * 255},
                  {0.229 * 255, 0.224 * 255, 0.225 * 255});
  }
};

const Register<Op, VggValueRange> registered("vgg_value_range");

}  // namespace
}  // namespace bv
