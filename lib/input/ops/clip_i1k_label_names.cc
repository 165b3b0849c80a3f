// clip_i1k_label_names: ImageNet's 1,000 class numbers to the names that CLIP uses for them.
// Keys: inkey "label" and outkey "labels" by default. Takes a number or a list of numbers of any
// integer dtype, gives text (common/text_tensor.h). Draws nothing.
// Follows big_vision's pp/ops_text.py `get_pp_clip_i1k_label_names`. The names are embedded in the
// executable: see label_names/README.md.
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

class ClipI1kLabelNames : public LabelNamesOp {
 public:
  explicit ClipI1kLabelNames(const Config& args)
      : LabelNamesOp("clip_i1k_label_names", {bv_clip_i1k_names, bv_clip_i1k_names_end}, args) {}
};

const Register<Op, ClipI1kLabelNames> registered("clip_i1k_label_names");

}  // namespace
}  // namespace bv
