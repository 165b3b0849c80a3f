// The op lower. Like TensorFlow's default, it does not change non-ASCII letters. Draws no random
// numbers.
#include <ATen/ops/empty_like.h>

#include "lib/config/key_table.h"
#include "lib/device/dtype_name.h"
#include "lib/input/ops/common/tensor_op.h"
#include "lib/input/ops/common/text_tensor.h"
#include "lib/util/text.h"

namespace bv {
namespace {

const KeyTable lower_keys(
    "pp: lower",
    {"Converts the letters A to Z to lower case and leaves all others, such as Ä. It changes "
     "'text', which must be a string (1-d uint8) or several (2-d uint8).",
     "lower", "pp/ops_text.py get_lower"},
    {}, in_out_key_texts("= text", "= text"));

class Lower : public TensorOp {
 public:
  explicit Lower(const Config& args) : TensorOp("lower") { keys_ = InOutKeys(args, "text"); }

 private:
  at::Tensor map(const at::Tensor& x, bool batched, std::span<Rng>) const override {
    const int64_t rank = x.dim() - (batched ? 1 : 0);
    if (x.scalar_type() != at::kByte || rank < 1 || rank > 2) {
      throw misuse(fmt::format(
          "must be a string (1-d uint8) or several (2-d uint8), has shape {} and type {}",
          shape_text(x.sizes().slice(batched ? 1 : 0)), dtype_name(x.scalar_type())));
    }
    const at::Tensor in = x.contiguous();
    at::Tensor out = at::empty_like(in);
    const uint8_t* from = in.const_data_ptr<uint8_t>();
    uint8_t* to = out.mutable_data_ptr<uint8_t>();
    for (int64_t i = 0; i < in.numel(); ++i) {
      const bool upper = from[i] >= 'A' && from[i] <= 'Z';
      to[i] = static_cast<uint8_t>(upper ? from[i] + ('a' - 'A') : from[i]);
    }
    return out;
  }
};

const Register<Op, Lower> registered_lower("lower");

}  // namespace
}  // namespace bv
