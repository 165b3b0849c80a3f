// The op squeeze_last_dim. Draws no random numbers.
#include "lib/config/key_table.h"
#include "lib/input/ops/common/tensor_op.h"
#include "lib/util/text.h"

namespace bv {
namespace {

const KeyTable squeeze_last_dim_keys(
    "pp: squeeze_last_dim",
    {"Drops the last dimension, which must have size 1: (height, width, 1) becomes "
     "(height, width). By default it changes 'image', which may have any type.",
     "squeeze_last_dim", "pp/ops_general.py get_squeeze_last_dim"},
    {}, in_out_key_texts());

class SqueezeLastDim : public TensorOp {
 public:
  explicit SqueezeLastDim(const Config& args) : TensorOp("squeeze_last_dim") {
    keys_ = InOutKeys(args);
  }

 private:
  at::Tensor map(const at::Tensor& x, bool batched, std::span<Rng>) const override {
    const at::IntArrayRef shape = x.sizes().slice(batched ? 1 : 0);
    if (shape.empty() || shape.back() != 1) {
      throw misuse(fmt::format("must have a last dimension of 1, has shape {}", shape_text(shape)));
    }
    return x.squeeze(-1);
  }
};

const Register<Op, SqueezeLastDim> registered_squeeze_last_dim("squeeze_last_dim");

}  // namespace
}  // namespace bv
