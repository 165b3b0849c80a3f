// clip_i1k_label_names: ImageNet's 1,000 class numbers to the names that CLIP gave them.
// pp: "clip_i1k_label_names"
// Reference section 12.4. The names are in the executable itself, see label_names/README.md.
#include "lib/input/ops/common/label_names.h"

// BV_EMBED_DIR is lib/input/sources/digits.
asm(".pushsection .rodata\n"
    "bv_clip_i1k_names: .incbin \"" BV_EMBED_DIR
    "/../../ops/label_names/clip_i1k.txt\"\n"
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
