// The op i21k_label_names. Draws no random numbers. The names are embedded in the executable: see
// label_names/README.md.
#include "lib/config/key_table.h"
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

const KeyTable i21k_label_names_keys(
    "pp: i21k_label_names",
    {"Converts ImageNet-21k class numbers, 0 to 21842, to their first WordNet "
     "word. It takes a number or a list of numbers of any integer type, by default "
     "from 'label', and stores a string for each in 'labels'.",
     "i21k_label_names", "pp/ops_text.py get_pp_i21k_label_names"},
    {}, kLabelNamesKeys);

class I21kLabelNames : public LabelNamesOp {
 public:
  explicit I21kLabelNames(const Config& args)
      : LabelNamesOp("i21k_label_names", {bv_i21k_names, bv_i21k_names_end}, args) {}
};

const Register<Op, I21kLabelNames> registered_i21k_label_names("i21k_label_names");

}  // namespace
}  // namespace bv
