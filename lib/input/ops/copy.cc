// copy(inkey, outkey): stores the tensor of inkey under outkey, too. Any dtype and shape. Draws
// nothing.
// Follows big_vision's pp/ops_general.py `get_copy`.
#include "lib/input/op.h"
#include "lib/input/ops/common/example_keys.h"

namespace bv {
namespace {

class Copy : public Op {
 public:
  explicit Copy(const Config& args)
      : in_(args.get<std::string>("inkey")), out_(args.get<std::string>("outkey")) {}

  void apply(Example& example, Rng&) const override {
    const at::Tensor tensor = require_tensor(example, in_, "copy");
    example[out_] = tensor;
  }
  bool has_batched() const override { return true; }
  void apply_batch(Example& batch, std::span<Rng> rngs) const override { apply(batch, rngs[0]); }

 private:
  const std::string in_, out_;
};

const Register<Op, Copy> registered("copy");

}  // namespace
}  // namespace bv
