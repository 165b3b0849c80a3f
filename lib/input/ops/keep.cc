// keep: removes all other keys. pp: "keep('image', 'labels')"
// Reference section 12.2.
#include "lib/input/op.h"

namespace bv {
namespace {

class KeepOp : public Op {
 public:
  explicit KeepOp(const Config& args) : keys_(args.positional_strings()) {
    if (keys_.empty()) args.fail("", "give at least one key");
  }

  void apply(Example& example, Rng&) const override {
    Example kept;
    for (const std::string& key : keys_) kept[key] = need(example, key, "keep");
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
