// copy: a second key for the same tensor. pp: "copy('label', 'labels')"
// Reference section 12.2.
#include "lib/input/op.h"

namespace bv {
namespace {

class Copy : public Op {
 public:
  explicit Copy(const Config& args)
      : in_(args.get<std::string>("inkey")), out_(args.get<std::string>("outkey")) {}

  void apply(Example& example, Rng&) const override {
    const at::Tensor tensor = need(example, in_, "copy");
    example[out_] = tensor;
  }
  bool has_batched() const override { return true; }
  void apply_batch(Example& batch, std::span<Rng> rngs) const override { apply(batch, rngs[0]); }

 private:
  const std::string in_, out_;
};

const Register<Op, Copy> registered("copy");

}  // namespace
}  // namespace bv
