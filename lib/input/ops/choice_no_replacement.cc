// The op choice_no_replacement. big_vision's counts how often it has seen an example. Here, an op's
// result must not depend on earlier calls, or a resumed run would differ from an uninterrupted one.
#include "lib/config/key_table.h"
#include "lib/input/op.h"

namespace bv {
namespace {

const KeyTable choice_no_replacement_keys(
    "pp: choice_no_replacement",
    {"Not supported; using it is an error: it counts the visits to each example, which a resumed "
     "run could not repeat. Use choice, which chooses again each time.",
     "", "pp/ops_general.py get_choice_no_replacement"},
    {});

class ChoiceNoReplacement : public Op {
 public:
  explicit ChoiceNoReplacement(const Config& args) {
    args.fail("", "not supported, because a resumed run can't repeat its visit counts; use choice");
  }
  void apply(Example&, Rng&) const override {}
};

const Register<Op, ChoiceNoReplacement> registered_choice_no_replacement("choice_no_replacement");

}  // namespace
}  // namespace bv
