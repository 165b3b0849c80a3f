// sigmoid_xent: -sum_c [y log sigmoid(z) + (1 - y) log sigmoid(-z)].
#include <ATen/core/Reduction.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>

#include "lib/config/key_table.h"
#include "lib/model/loss.h"

namespace bv {
namespace {

const KeyTable sigmoid_xent_keys(
    "loss: sigmoid_xent",
    {"Binary cross-entropy of each class, summed over the classes: -sum(y * log(sigmoid(z)) + (1 - "
     "y) * log(sigmoid(-z))) with labels y and logits z. Use it if an image may have several "
     "classes or none. It also works well with a large number of classes. While all logits are 0, "
     "it is about 0.7 per class; `init_head_bias` lowers the start.",
     "loss: sigmoid_xent\ninit_head_bias: -6.9", "utils.py sigmoid_xent"},
    {});

class SigmoidXent : public Loss {
 public:
  explicit SigmoidXent(const Config&) {}
  at::Tensor operator()(const at::Tensor& logits, const at::Tensor& labels) const override {
    return at::binary_cross_entropy_with_logits(logits, labels, {}, {}, at::Reduction::None)
        .sum(-1);
  }
};

const Register<Loss, SigmoidXent> registered_sigmoid_xent("sigmoid_xent");

}  // namespace
}  // namespace bv
