// drop: removes keys. pp: "drop('id')"
// Reference section 12.2.
#include "lib/input/op.h"

namespace bv {
namespace {

class Drop : public Op {
 public:
  explicit Drop(const Config& args) : keys_(args.positional_strings()) {
    if (keys_.empty()) args.fail("", "give at least one key");
  }

  void apply(Example& example, Rng&) const override {
    for (const std::string& key : keys_) {
      need(example, key, "drop");
      example.erase(key);
    }
  }
  bool has_batched() const override { return true; }
  void apply_batch(Example& batch, std::span<Rng> rngs) const override { apply(batch, rngs[0]); }

 private:
  const std::vector<std::string> keys_;
};

const Register<Op, Drop> registered("drop");

}  // namespace
}  // namespace bv
