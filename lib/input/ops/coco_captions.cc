// The op coco_captions. Draws no random numbers.
#include "lib/config/key_table.h"
#include "lib/input/op.h"
#include "lib/input/ops/common/example_keys.h"

namespace bv {
namespace {

const KeyTable coco_captions_keys(
    "pp: coco_captions",
    {"Copies the captions of a COCO example, its feature 'captions/text', to a "
     "shorter name. They may have any type and shape.",
     "coco_captions", "pp/ops_text.py get_coco_captions"},
    {{"outkey", "string", "captions", "Name of the new feature."}});

constexpr const char* kCocoText = "captions/text";

class CocoCaptions : public Op {
 public:
  explicit CocoCaptions(const Config& args) : outkey_(args.get("outkey", "captions")) {}

  void apply(Example& example, Rng&) const override {
    const at::Tensor captions = require_tensor(example, kCocoText, "coco_captions");
    example[outkey_] = captions;
  }
  bool leaves(std::string_view key) const override { return outkey_ != key && key != kCocoText; }
  std::optional<std::string> makes_from(std::string_view key) const override {
    return outkey_ == key && key != kCocoText ? std::optional<std::string>(kCocoText)
                                              : std::nullopt;
  }
  bool has_batched() const override { return true; }
  void apply_batch(Example& batch, std::span<Rng> rngs) const override { apply(batch, rngs[0]); }

 private:
  const std::string outkey_;
};

const Register<Op, CocoCaptions> registered_coco_captions("coco_captions");

}  // namespace
}  // namespace bv
