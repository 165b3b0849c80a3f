// flatten(keys=None): does nothing. big_vision's op (pp/ops_general.py `get_flatten`) turns nested
// features into features named "a/b". Here examples are never nested, and features have such names
// from the start.
#include "lib/input/op.h"

namespace bv {
namespace {

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
