// keep(*keys): removes all other keys. All of `keys` must exist (big_vision ignores missing
// ones). Draws nothing.
// Follows big_vision's pp/ops_general.py `get_keep`.
#include "lib/input/op.h"
#include "lib/input/ops/common/example_keys.h"

namespace bv {
namespace {

class KeepOp : public Op {
 public:
  explicit KeepOp(const Config& args) : keys_(args.positional_strings()) {
    if (keys_.empty()) args.fail("", "give at least one key");
  }

  void apply(Example& example, Rng&) const override {
    Example kept;
    for (const std::string& key : keys_) kept[key] = require_tensor(example, key, "keep");
    example.swap(kept);
  }
  bool has_batched() const override { return true; }
  void apply_batch(Example& batch, std::span<Rng> rngs) const override { apply(batch, rngs[0]); }

 private:
  const std::vector<std::string> keys_;
};

const Register<Op, KeepOp> registered("keep");

}  // namespace
}  // namespace bv
