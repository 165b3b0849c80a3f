// sgd, identity: the gradient itself. No keys, no state.
#include "lib/train/fused.h"

namespace bv {
namespace {

struct SgdRule {
  [[gnu::always_inline]] void block(const Block& x, Block& u, int64_t) const { u = x; }
};

class Sgd : public Optimizer {
 public:
  explicit Sgd(const Config&) : Optimizer({}) {}
  UpdateSums update(const FlatParams& params, std::span<const UpdateRange> ranges,
                    const StepScalars& scalars, const at::Tensor* ema) override {
    return fused_update(SgdRule{}, params, ranges, scalars, ema);
  }
};
const Register<Optimizer, Sgd> registered("sgd");
const Register<Optimizer, Sgd> registered_seed_name("big_vision.sgd");
const Register<Optimizer, Sgd> registered_identity("identity");

}  // namespace
}  // namespace bv
