// choice_no_replacement: refused. The reference's op (section 12.2) counts how often it has seen an
// example; what an op gives must not depend on what went before, or a resumed run would differ.
#include "lib/input/op.h"

namespace bv {
namespace {

class ChoiceNoReplacement : public Op {
 public:
  explicit ChoiceNoReplacement(const Config& args) {
    args.fail("", "it would count visits, which a resumed run could not repeat: use choice");
  }
  void apply(Example&, Rng&) const override {}
};

const Register<Op, ChoiceNoReplacement> registered("choice_no_replacement");

}  // namespace
}  // namespace bv
