// coco_captions: the captions of a COCO example. pp: "coco_captions", "coco_captions('texts')"
// Reference section 12.4: the nested feature captions/text, under `outkey` (default "captions").
#include "lib/input/op.h"

namespace bv {
namespace {

class CocoCaptions : public Op {
 public:
  explicit CocoCaptions(const Config& args) : outkey_(args.get("outkey", "captions")) {}

  void apply(Example& example, Rng&) const override {
    const at::Tensor captions = need(example, "captions/text", "coco_captions");
    example[outkey_] = captions;
  }
  bool has_batched() const override { return true; }
  void apply_batch(Example& batch, std::span<Rng> rngs) const override { apply(batch, rngs[0]); }

 private:
  const std::string outkey_;
};

const Register<Op, CocoCaptions> registered("coco_captions");

}  // namespace
}  // namespace bv
