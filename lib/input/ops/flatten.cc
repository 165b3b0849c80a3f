// The op flatten. Examples are never nested, and features are named "a/b" from the start.
#include "lib/config/key_table.h"
#include "lib/input/op.h"

namespace bv {
namespace {

const KeyTable flatten_keys(
    "pp: flatten",
    {"Does nothing. In big_vision it turns a feature b inside a into 'a/b'; here features have "
     "such names from the start. It exists so that big_vision's pp strings work.",
     "flatten", "pp/ops_general.py get_flatten"},
    {{"keys", "list of string", "none", "Has no effect, because no feature is nested."}});

class Flatten : public Op {
 public:
  explicit Flatten(const Config& args) { args.maybe<std::vector<std::string>>("keys"); }

  void apply(Example&, Rng&) const override {}
  bool leaves(std::string_view) const override { return true; }
  bool has_batched() const override { return true; }
  void apply_batch(Example&, std::span<Rng>) const override {}
};

const Register<Op, Flatten> registered_flatten("flatten");

}  // namespace
}  // namespace bv
