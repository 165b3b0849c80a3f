// flatten: nested features to features named a/b. pp: "flatten", "flatten(['captions'])"
// Reference section 12.2. Examples are flat from the start here, with these very names, so nothing
// is left to do.
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
