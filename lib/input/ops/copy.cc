// The op copy. Draws no random numbers.
#include "lib/config/key_table.h"
#include "lib/input/op.h"
#include "lib/input/ops/common/example_keys.h"

namespace bv {
namespace {

const KeyTable copy_keys(
    "pp: copy",
    {"Copies a feature of any type and shape to a second name. Later ops can then "
     "change one of the two and leave the other.",
     "copy('image', 'original')", "pp/ops_general.py get_copy"},
    {{"inkey", "string", "required", "The feature to copy."},
     {"outkey", "string", "required",
      "Name of the copy. An existing feature of this name is replaced."}});

class Copy : public Op {
 public:
  explicit Copy(const Config& args)
      : in_(args.get<std::string>("inkey")), out_(args.get<std::string>("outkey")) {}

  void apply(Example& example, Rng&) const override {
    const at::Tensor tensor = require_tensor(example, in_, "copy");
    example[out_] = tensor;
  }
  bool has_batched() const override { return true; }
  bool leaves(std::string_view key) const override { return in_ != key && out_ != key; }
  std::optional<std::string> makes_from(std::string_view key) const override {
    return out_ == key ? std::optional(in_) : std::nullopt;
  }
  void apply_batch(Example& batch, std::span<Rng> rngs) const override { apply(batch, rngs[0]); }

 private:
  const std::string in_, out_;
};

const Register<Op, Copy> registered_copy("copy");

}  // namespace
}  // namespace bv
