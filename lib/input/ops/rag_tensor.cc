// rag_tensor: refused. The reference's op (section 12.2) makes batches of examples whose shapes
// differ.
#include "lib/input/op.h"

namespace bv {
namespace {

class RagTensor : public Op {
 public:
  explicit RagTensor(const Config& args) {
    args.fail("", "a batch can't hold examples of different shapes here: use pad_to_shape");
  }
  void apply(Example&, Rng&) const override {}
};

const Register<Op, RagTensor> registered("rag_tensor");

}  // namespace
}  // namespace bv
