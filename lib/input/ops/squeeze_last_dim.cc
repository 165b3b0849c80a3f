// squeeze_last_dim: drops the last dimension, which must have length 1.
// Keys: key, or inkey and outkey; "image" by default. Takes and gives any dtype. Draws nothing.
// Follows big_vision's pp/ops_general.py `get_squeeze_last_dim`.
#include "lib/input/ops/common/tensor_op.h"
#include "lib/util/text.h"

namespace bv {
namespace {

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

const Register<Op, SqueezeLastDim> registered("squeeze_last_dim");

}  // namespace
}  // namespace bv
