// i21k_label_names: ImageNet-21k's 21,843 class numbers to WordNet's first words for them.
// Keys: inkey "label" and outkey "labels" by default. Takes a number or a list of numbers of any
// integer dtype, gives text (common/text_tensor.h). Draws nothing.
// Follows big_vision's pp/ops_text.py `get_pp_i21k_label_names`. The names are embedded in the
// executable: see label_names/README.md.
#include "lib/input/ops/common/label_names_op.h"

asm(".pushsection .rodata\n"
    "bv_i21k_names: .incbin \"" BV_EMBED_DIR
    "/ops/label_names/i21k.txt\"\n"
    "bv_i21k_names_end:\n"
    ".popsection\n");
extern "C" {
extern const char bv_i21k_names[] __attribute__((visibility("hidden")));
extern const char bv_i21k_names_end[] __attribute__((visibility("hidden")));
}

namespace bv {
namespace {

class I21kLabelNames : public LabelNamesOp {
 public:
  explicit I21kLabelNames(const Config& args)
      : LabelNamesOp("i21k_label_names", {bv_i21k_names, bv_i21k_names_end}, args) {}
};

const Register<Op, I21kLabelNames> registered("i21k_label_names");

}  // namespace
}  // namespace bv
