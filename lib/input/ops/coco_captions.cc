// coco_captions(outkey="captions"): the captions of a COCO example.
// Copies the feature "captions/text" to outkey. Draws nothing.
// Follows big_vision's pp/ops_text.py `get_coco_captions`.
#include "lib/input/op.h"
#include "lib/input/ops/common/example_keys.h"

namespace bv {
namespace {

class CocoCaptions : public Op {
 public:
  explicit CocoCaptions(const Config& args) : outkey_(args.get("outkey", "captions")) {}

  void apply(Example& example, Rng&) const override {
    const at::Tensor captions = require_tensor(example, "captions/text", "coco_captions");
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
