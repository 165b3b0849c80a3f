// The op clip_i1k_label_names. Draws no random numbers. The names are embedded in the executable:
// see label_names/README.md.
#include "lib/config/key_table.h"
#include "lib/input/ops/common/label_names_op.h"

asm(".pushsection .rodata\n"
    "bv_clip_i1k_names: .incbin \"" BV_EMBED_DIR
    "/ops/label_names/clip_i1k.txt\"\n"
    "bv_clip_i1k_names_end:\n"
    ".popsection\n");
extern "C" {
extern const char bv_clip_i1k_names[] __attribute__((visibility("hidden")));
extern const char bv_clip_i1k_names_end[] __attribute__((visibility("hidden")));
}

namespace bv {
namespace {

const KeyTable clip_i1k_label_names_keys(
    "pp: clip_i1k_label_names",
    {"Converts ImageNet class numbers, 0 to 999, to the names that CLIP uses. It "
     "takes a number or a list of numbers of any integer type, by default from "
     "'label', and stores a string for each in 'labels'.",
     "clip_i1k_label_names", "pp/ops_text.py get_pp_clip_i1k_label_names"},
    {}, kLabelNamesKeys);

class ClipI1kLabelNames : public LabelNamesOp {
 public:
  explicit ClipI1kLabelNames(const Config& args)
      : LabelNamesOp("clip_i1k_label_names", {bv_clip_i1k_names, bv_clip_i1k_names_end}, args) {}
};

const Register<Op, ClipI1kLabelNames> registered_clip_i1k_label_names("clip_i1k_label_names");

}  // namespace
}  // namespace bv
