// rag_tensor: not supported. big_vision's op (pp/ops_general.py `get_rag_tensor`) makes batches of
// examples of different shapes.
#include "lib/input/op.h"

namespace bv {
namespace {

class RagTensor : public Op {
 public:
  explicit RagTensor(const Config& args) {
    args.fail(
        "",
        "not supported, because a batch can't hold examples of different shapes; use pad_to_shape");
  }
  void apply(Example&, Rng&) const override {}
};

const Register<Op, RagTensor> registered("rag_tensor");

}  // namespace
}  // namespace bv
