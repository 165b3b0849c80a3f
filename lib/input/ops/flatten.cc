// The op flatten. Examples are never nested, and features are named "a/b" from the start.
#include "lib/config/key_table.h"
#include "lib/input/op.h"

namespace bv {
namespace {

const KeyTable keys(
    "pp: flatten",
    {"Does nothing. In big_vision it makes the feature 'a/b' of a feature b inside a; here "
     "features have such names from the start. It is accepted so that pp strings of "
     "big_vision work.",
     "flatten", "pp/ops_general.py get_flatten"},
    {{"keys", "list of string", "none",
      "Has no effect. No feature is nested, and nothing has to be named."}});

class Flatten : public Op {
 public:
  explicit Flatten(const Config& args) { args.maybe<std::vector<std::string>>("keys"); }

  void apply(Example&, Rng&) const override {}
  bool has_batched() const override { return true; }
  void apply_batch(Example&, std::span<Rng>) const override {}
};

const Register<Op, Flatten> registered("flatten");

}  // namespace
}  // namespace bv
