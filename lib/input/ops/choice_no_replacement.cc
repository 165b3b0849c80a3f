// choice_no_replacement: not supported. big_vision's op (pp/ops_general.py
// `get_choice_no_replacement`) counts how often it has seen an example. Here the result of an op
// must not depend on what happened before, or a resumed run would differ from an uninterrupted one.
#include "lib/input/op.h"

namespace bv {
namespace {

class ChoiceNoReplacement : public Op {
 public:
  explicit ChoiceNoReplacement(const Config& args) {
    args.fail("",
              "not supported, because a resumed run can't repeat its counts of visits; use choice");
  }
  void apply(Example&, Rng&) const override {}
};

const Register<Op, ChoiceNoReplacement> registered("choice_no_replacement");

}  // namespace
}  // namespace bv
