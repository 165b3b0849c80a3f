// i21k_label_names: ImageNet-21k's 21,843 class numbers to WordNet's first words for them.
// pp: "i21k_label_names"
// Reference section 12.4. The names are in the executable itself, see label_names/README.md.
#include "lib/input/ops/common/label_names.h"

// BV_EMBED_DIR is lib/input/sources/digits.
asm(".pushsection .rodata\n"
    "bv_i21k_names: .incbin \"" BV_EMBED_DIR
    "/../../ops/label_names/i21k.txt\"\n"
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
