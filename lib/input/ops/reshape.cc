// The op reshape. Draws no random numbers.
#include <algorithm>
#include <optional>

#include "lib/config/key_table.h"
#include "lib/input/ops/common/tensor_op.h"
#include "lib/util/text.h"

namespace bv {
namespace {

const KeyTable reshape_keys(
    "pp: reshape",
    {"Changes the shape of a feature. The values keep their order. By default it "
     "changes 'image', which may have any type and shape.",
     "reshape([28, 28, 1])", "pp/ops_general.py get_reshape"},
    {{"new_shape", "list of int >= -1", "required",
      "Size of each dimension. One of them may be -1: it is inferred. An example "
      "whose number of values does not fit is an error.",
      "[2, -1]"}},
    in_out_key_texts());

class Reshape : public TensorOp {
 public:
  explicit Reshape(const Config& args)
      : TensorOp("reshape"), shape_(args.get<std::vector<int64_t>>("new_shape")) {
    keys_ = InOutKeys(args);
    for (const int64_t side : shape_) {
      if (side < -1)
        args.problem("new_shape", fmt::format("sides must be -1 or more, got {}", side));
    }
    if (std::count(shape_.begin(), shape_.end(), -1) > 1) {
      args.problem("new_shape", "only one side can be -1");
    }
  }

 private:
  // Returns the product of all sides except -1, or nullopt if int64 can't hold it.
  static std::optional<int64_t> product(const std::vector<int64_t>& shape) {
    int64_t product = 1;
    for (const int64_t side : shape) {
      if (side >= 0 && __builtin_mul_overflow(product, side, &product)) return std::nullopt;
    }
    return product;
  }

  at::Tensor map(const at::Tensor& x, bool batched, std::span<Rng>) const override {
    std::vector<int64_t> shape = shape_;
    const int64_t values = batched ? x.numel() / std::max<int64_t>(x.size(0), 1) : x.numel();
    const std::optional<int64_t> known = product(shape);
    const auto open = std::find(shape.begin(), shape.end(), -1);
    if (open != shape.end() && known && *known > 0) *open = values / *known;
    const std::optional<int64_t> total = product(shape);
    if (total != values || std::count(shape.begin(), shape.end(), -1) > 0) {
      throw bad_example(fmt::format("shape {} has {} values, which do not fit {}",
                                    shape_text(x.sizes().slice(batched ? 1 : 0)), values,
                                    shape_text(shape_)));
    }
    if (batched) shape.insert(shape.begin(), x.size(0));
    return x.reshape(shape);
  }

  const std::vector<int64_t> shape_;
};

const Register<Op, Reshape> registered_reshape("reshape");

}  // namespace
}  // namespace bv
