// tokenize: refused. The reference's op (section 12.4) needs a sentencepiece model.
#include "lib/input/op.h"

namespace bv {
namespace {

class Tokenize : public Op {
 public:
  explicit Tokenize(const Config& args) {
    args.fail("",
              "sentencepiece models can't be read here: tokenize beforehand and store the numbers "
              "beside the images, e.g. in an npz");
  }
  void apply(Example&, Rng&) const override {}
};

const Register<Op, Tokenize> registered("tokenize");

}  // namespace
}  // namespace bv
