// The op coco_captions. Draws no random numbers.
#include "lib/config/key_table.h"
#include "lib/input/op.h"
#include "lib/input/ops/common/example_keys.h"

namespace bv {
namespace {

const KeyTable keys(
    "pp: coco_captions",
    {"Stores the captions of an example of COCO, its feature 'captions/text', under a shorter "
     "name, too. They stay as they are, with any type and shape.",
     "coco_captions", "pp/ops_text.py get_coco_captions"},
    {{"outkey", "string", "captions", "The feature that the captions are stored in."}});

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
