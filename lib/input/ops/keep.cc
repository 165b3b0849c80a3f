// The op keep. Draws no random numbers.
#include <algorithm>

#include "lib/config/key_table.h"
#include "lib/input/op.h"
#include "lib/input/ops/common/example_keys.h"

namespace bv {
namespace {

const KeyTable keep_keys(
    "pp: keep",
    {"Removes all features but the named ones, of any type and shape. It usually ends a pp string, "
     "because the remaining features go into the batch. All named ones must exist; big_vision "
     "ignores missing ones.",
     "keep('image', 'labels')", "pp/ops_general.py get_keep"},
    {{"*keys", "string", "required",
      "The features to keep, at least one, as separate arguments: keep('image', 'labels')."}});

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
  bool leaves(std::string_view key) const override {
    return std::find(keys_.begin(), keys_.end(), key) != keys_.end();
  }
  void apply_batch(Example& batch, std::span<Rng> rngs) const override { apply(batch, rngs[0]); }

 private:
  const std::vector<std::string> keys_;
};

const Register<Op, KeepOp> registered_keep("keep");

}  // namespace
}  // namespace bv
