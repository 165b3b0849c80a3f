#include "lib/model/loss.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/log_softmax.h>

#include "lib/config/key_table.h"

namespace bv {
namespace {

const KeyTable sigmoid_keys(
    "loss: sigmoid_xent",
    {"Binary cross-entropy of each class, summed over the classes: -sum(y * log(sigmoid(z)) + (1 - "
     "y) * log(sigmoid(-z))) with labels y and logits z. Use it if an image may have several "
     "classes or none; it also suits many classes. While all logits are 0, it is about 0.7 per "
     "class; `init_head_bias` lowers the start.",
     "loss: sigmoid_xent\ninit_head_bias: -6.9", "utils.py sigmoid_xent"},
    {});
const KeyTable softmax_keys("loss: softmax_xent",
                            {"Cross-entropy of the softmax over classes: -sum(y * log(softmax(z))) "
                             "with labels y and logits z. Use it if each image has exactly one "
                             "class; labels may be soft, as with mixup and `label_smoothing`.",
                             "loss: softmax_xent", "utils.py softmax_xent"},
                            {});

// -sum_c [y log sigmoid(z) + (1 - y) log sigmoid(-z)]
class SigmoidXent : public Loss {
 public:
  explicit SigmoidXent(const Config&) {}
  at::Tensor operator()(const at::Tensor& logits, const at::Tensor& labels) const override {
    return at::binary_cross_entropy_with_logits(logits, labels, {}, {}, at::Reduction::None)
        .sum(-1);
  }
};

// -sum_c y log_softmax(z)
class SoftmaxXent : public Loss {
 public:
  explicit SoftmaxXent(const Config&) {}
  at::Tensor operator()(const at::Tensor& logits, const at::Tensor& labels) const override {
    return -(labels * at::log_softmax(logits, -1)).sum(-1);
  }
};

const Register<Loss, SigmoidXent> sigmoid_xent("sigmoid_xent");
const Register<Loss, SoftmaxXent> softmax_xent("softmax_xent");

}  // namespace
}  // namespace bv
