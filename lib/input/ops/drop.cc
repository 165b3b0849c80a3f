// The op drop. Draws no random numbers.
#include <algorithm>

#include "lib/config/key_table.h"
#include "lib/input/op.h"
#include "lib/input/ops/common/example_keys.h"

namespace bv {
namespace {

const KeyTable drop_keys(
    "pp: drop",
    {"Removes features of any type and shape from the example. All of them must exist; big_vision "
     "ignores missing ones.",
     "drop('mask')", "pp/ops_general.py get_drop"},
    {{"*keys", "string", "required",
      "The features to remove, at least one, as separate arguments: drop('mask', 'boxes')."}});

class Drop : public Op {
 public:
  explicit Drop(const Config& args) : keys_(args.positional_strings()) {
    if (keys_.empty()) args.fail("", "give at least one key");
  }

  void apply(Example& example, Rng&) const override {
    for (const std::string& key : keys_) {
      require_tensor(example, key, "drop");
      example.erase(key);
    }
  }
  bool has_batched() const override { return true; }
  bool leaves(std::string_view key) const override {
    return std::find(keys_.begin(), keys_.end(), key) == keys_.end();
  }
  void apply_batch(Example& batch, std::span<Rng> rngs) const override { apply(batch, rngs[0]); }

 private:
  const std::vector<std::string> keys_;
};

const Register<Op, Drop> registered_drop("drop");

}  // namespace
}  // namespace bv
