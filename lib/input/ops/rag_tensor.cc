// The op rag_tensor. In big_vision it creates batches of examples of different shapes.
#include "lib/config/key_table.h"
#include "lib/input/op.h"

namespace bv {
namespace {

const KeyTable rag_tensor_keys(
    "pp: rag_tensor",
    {"Not supported; using it is an error: a batch cannot hold examples of "
     "different shapes. Use pad_to_shape, which makes the shapes equal.",
     "", "pp/ops_general.py get_rag_tensor"},
    {});

class RagTensor : public Op {
 public:
  explicit RagTensor(const Config& args) {
    args.fail(
        "",
        "not supported, because a batch can't hold examples of different shapes; use pad_to_shape");
  }
  void apply(Example&, Rng&) const override {}
};

const Register<Op, RagTensor> registered_rag_tensor("rag_tensor");

}  // namespace
}  // namespace bv
