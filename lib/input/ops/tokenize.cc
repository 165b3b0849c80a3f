// tokenize: not supported. big_vision's op (pp/ops_text.py `get_pp_tokenize`) needs a sentencepiece
// model.
#include "lib/input/op.h"

namespace bv {
namespace {

class Tokenize : public Op {
 public:
  explicit Tokenize(const Config& args) {
    args.fail(
        "",
        "not supported, because sentencepiece models can't be read; tokenize beforehand and store "
        "the token ids beside the images, e.g. in an npz");
  }
  void apply(Example&, Rng&) const override {}
};

const Register<Op, Tokenize> registered("tokenize");

}  // namespace
}  // namespace bv
