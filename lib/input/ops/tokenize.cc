// The op tokenize. big_vision's needs a sentencepiece model.
#include "lib/config/key_table.h"
#include "lib/input/op.h"

namespace bv {
namespace {

const KeyTable tokenize_keys(
    "pp: tokenize",
    {"Not supported; using it is an error: bvtrain cannot read sentencepiece models. Tokenize the "
     "text beforehand and store the token ids with the images, for example in an .npz file.",
     "", "pp/ops_text.py get_pp_tokenize"},
    {});

class Tokenize : public Op {
 public:
  explicit Tokenize(const Config& args) {
    args.fail("",
              "not supported, because sentencepiece models can't be read; tokenize beforehand and "
              "store the token ids with the images, e.g. in an npz");
  }
  void apply(Example&, Rng&) const override {}
};

const Register<Op, Tokenize> registered_tokenize("tokenize");

}  // namespace
}  // namespace bv
